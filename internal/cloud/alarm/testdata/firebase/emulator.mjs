// Starts the emulator of Cloud Tasks that the Firebase CLI has, by itself: the CLI would start it
// together with that of its functions. It has no release of its own. Says its port on standard
// output, and ends with standard input.
import { createRequire } from 'node:module';
import { createServer } from 'node:net';

const require = createRequire(import.meta.url);
const { TasksEmulator } = require('firebase-tools/lib/emulator/tasksEmulator.js');

/** A port that is free now. */
const port = await new Promise((resolve) => {
  const server = createServer().listen(0, '127.0.0.1', () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

await new TasksEmulator({ host: '127.0.0.1', port }).start(); // which does not wait until it listens
while (!(await fetch(`http://127.0.0.1:${port}/queueStats`).catch(() => null)));
process.stdin.on('end', () => process.exit()).resume();
console.log(port);
