#!/usr/bin/env node
// Runs the program of the package for this machine, which npm installs next to this one.
import { spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { constants } from 'node:os';

const machine = `${process.platform}-${process.arch}`;
const program = process.platform === 'win32' ? 'tally.exe' : 'tally';

function find() {
  try {
    return createRequire(import.meta.url).resolve(`@firestore-tally/cli-${machine}/${program}`);
  } catch {
    console.error(
      `tally: @firestore-tally/cli-${machine} is not installed. npm leaves it out with --omit=optional or --no-optional,\n` +
        'with a lock file from another machine (delete node_modules and package-lock.json, and install again),\n' +
        'and where there is no such package: https://github.com/firestore-tally/tally#run-it tells how to build one.',
    );
    process.exit(1);
  }
}

const child = spawn(find(), process.argv.slice(2), {
  argv0: 'tally', // which it prints in commands
  env: { ...process.env, TALLY_LAUNCHER: 'npm' },
  stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
});

// The program ends when this pipe does, also when this process is killed. No signal is passed on: a
// terminal sends one to both processes, and the second one would end the program at once.
const lifeline = child.stdio[3];
lifeline.on('error', () => {}); // the program has ended
for (const signal of ['SIGINT', 'SIGHUP', 'SIGTERM']) process.on(signal, () => lifeline.destroy());

child.on('error', (error) => {
  console.error(`tally: ${error.message}`);
  process.exitCode = 1;
});
child.on('exit', (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal];
});
