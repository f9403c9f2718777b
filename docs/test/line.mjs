// A line to Firestore that can lose its answers.
import { connect, createServer } from 'node:net';
import { listening } from '../../clients/web/e2e/loopback.mjs';

/**
 * Passes on connections to a port of this machine.
 *
 * - `lose()`: from now on nothing that is answered arrives.
 * - `restore()`: breaks the connections that are open, and passes on new ones whole.
 * - `connections()`: how many there have been.
 */
export async function startLine(port) {
  let losing = false;
  let connections = 0;
  const open = new Set();
  const server = createServer((near) => {
    connections++;
    const far = connect(port, '127.0.0.1');
    near.on('data', (data) => far.write(data));
    far.on('data', (data) => losing || near.write(data));
    for (const [end, other] of [[near, far], [far, near]]) {
      open.add(end);
      end.on('error', () => {}); // 'close' follows
      end.on('close', () => (open.delete(end), other.destroy()));
    }
  });
  const destroyAll = () => open.forEach((socket) => socket.destroy());
  const { port: own, close } = await listening(server);
  return {
    port: own,
    lose: () => (losing = true),
    restore: () => (destroyAll(), (losing = false)),
    connections: () => connections,
    close: () => (destroyAll(), close()),
  };
}
