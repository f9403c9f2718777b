#!/usr/bin/env node
// Runs the program of the package for this machine, which npm installs beside this one.
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

const child = spawn(find(), process.argv.slice(2), { stdio: 'inherit' });

// A terminal sends these to both processes, and the program takes its time to end.
process.on('SIGINT', () => {});
process.on('SIGHUP', () => {});
// This one comes from another process, which knows of this one only.
process.on('SIGTERM', () => child.kill('SIGTERM'));

child.on('error', (error) => {
  console.error(`tally: ${error.message}`);
  process.exitCode = 1;
});
child.on('exit', (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal];
});
