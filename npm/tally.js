#!/usr/bin/env node
// Runs the program of the package for this machine, which npm installs together with this one.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const require = createRequire(import.meta.url);
const own = require('./package.json');
const machine = `${process.platform}-${process.arch}`;
const name = `@firestore-tally/cli-${machine}`;
const program = process.platform === 'win32' ? 'tally.exe' : 'tally';

function fail(message) {
  console.error(`tally: ${message}`);
  process.exit(1);
}

/**
 * The manifests that the package for this machine may have: package managers put it below this one or
 * next to it. Node.js would look in all folders above as well, and there others may have made one.
 */
function manifests() {
  if (!process.versions.pnp) return [`./node_modules/${name}/package.json`, `../cli-${machine}/package.json`];
  try {
    return [require.resolve(`${name}/package.json`)]; // Yarn's Plug'n'Play allows no other package's
  } catch {
    return [];
  }
}

/** The program of the package for this machine. */
function find() {
  const here = dirname(fileURLToPath(import.meta.url));
  const manifest = manifests()
    .map((file) => resolve(here, file))
    .find(existsSync);
  if (!manifest) {
    fail(
      `${name} is not installed. npm leaves it out with --omit=optional or --no-optional,\n` +
        'with a lock file from another machine (delete node_modules and package-lock.json, and install again),\n' +
        'and where there is no such package: https://github.com/firestore-tally/tally#run-it tells how to build one.',
    );
  }

  let version;
  try {
    ({ version } = JSON.parse(readFileSync(manifest, 'utf8')));
  } catch (error) {
    fail(`could not read ${manifest}: ${error.message}`);
  }
  if (version !== own.version) {
    fail(
      `${name} is version ${version}, and ${own.name} is ${own.version}. Delete node_modules and install again:\n` +
        dirname(manifest),
    );
  }
  return join(dirname(manifest), program);
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

child.on('error', (error) => fail(error.message));
child.on('exit', (code, signal) => {
  process.exitCode = code ?? 128 + constants.signals[signal];
});
