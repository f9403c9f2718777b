// Runs "tally dev" for a test: emulator, rules, functions, events.
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Starts the stack on free ports and waits until it runs.
 * @param {string} routes TALLY_ROUTES
 * @returns {Promise<{host: string, port: number, project: string, tally: (...args: string[]) => Promise<string>, stop: () => Promise<void>}>}
 */
export async function startStack(routes) {
  const dir = await mkdtemp(join(tmpdir(), 'tally-stack-'));
  const binary = join(dir, 'tally');
  await promisify(execFile)('go', ['build', '-o', binary, './cmd/tally'], { cwd: root });

  const [port, functionsPort] = await freePorts(2);
  const project = 'demo-snippets';
  const env = { ...process.env, TALLY_ROUTES: routes };
  delete env.FIRESTORE_EMULATOR_HOST; // never somebody else's emulator
  const args = ['dev', '--instances', '1', '--project', project, '--firestore-port', String(port), '--functions-port', String(functionsPort)];
  const dev = spawn(binary, args, { cwd: root, env });
  const ended = new Promise((resolve) => dev.once('close', resolve));
  async function stop() {
    if (dev.exitCode === null && dev.signalCode === null) dev.kill('SIGTERM');
    await ended;
    await rm(dir, { recursive: true });
  }

  let output = '';
  const greeted = new Promise((resolve) => {
    for (const stream of [dev.stdout, dev.stderr]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text;
        if (output.includes('Tally runs.')) resolve(true);
      });
    }
  });
  if (!(await Promise.race([greeted, ended.then(() => false)]))) {
    await stop();
    throw new Error(`tally dev ended before it ran:\n${output}`);
  }

  const host = '127.0.0.1';
  async function tally(...command) {
    const env = { ...process.env, FIRESTORE_EMULATOR_HOST: `${host}:${port}` };
    const { stdout } = await promisify(execFile)(binary, [...command, '--project', project], { env });
    return stdout;
  }
  return { host, port, project, tally, stop };
}

/** Returns ports that were free a moment ago. */
async function freePorts(n) {
  const servers = await Promise.all(
    Array.from({ length: n }, () => new Promise((resolve, reject) => {
      const server = createServer().once('error', reject).listen(0, '127.0.0.1', () => resolve(server));
    })),
  );
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
