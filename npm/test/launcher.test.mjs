// Which program the launcher runs, in the folders that package managers make. The programs are
// scripts that say their name.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const machine = `${process.platform}-${process.arch}`;
const cli = '@firestore-tally/cli';
const packaged = `${cli}-${machine}`;
const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url)));

const work = realpathSync(mkdtempSync(join(tmpdir(), 'tally-launcher-')));
after(() => rmSync(work, { recursive: true, force: true }));

/** Writes files below a folder, which it makes. */
function write(folder, files) {
  mkdirSync(folder, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o755 });
  return folder;
}

/** Puts this clone's launcher into a folder as the version 1.2.3, and returns its file. */
function launcher(folder) {
  write(folder, { 'package.json': JSON.stringify({ ...manifest, version: '1.2.3' }) });
  copyFileSync(new URL('../tally.js', import.meta.url), join(folder, 'tally.js'));
  return join(folder, 'tally.js');
}

/** Puts a program into a folder, as the package for this machine has it. It prints `says`. */
function program(folder, says, version = '1.2.3') {
  write(folder, {
    'package.json': JSON.stringify({ name: packaged, version }),
    tally: `#!/bin/sh\necho "${says}"\n`,
  });
}

/** Runs a launcher in the folder above all of a test's folders. */
function run(file, ...options) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [...options, file], { cwd: work, encoding: 'utf8' });
  return { status, out: stdout.trim(), err: stderr };
}

const layouts = {
  'next to it, as npm, Yarn and Bun install': (app) => {
    program(join(app, 'node_modules', packaged), 'own');
    return launcher(join(app, 'node_modules', cli));
  },
  'below it, as npm install --global and --install-strategy=nested do': (app) => {
    program(join(app, 'node_modules', packaged), 'of another package', '1.0.0');
    program(join(app, 'node_modules', cli, 'node_modules', packaged), 'own');
    return launcher(join(app, 'node_modules', cli));
  },
  'next to where a link leads, as pnpm and --install-strategy=linked do': (app) => {
    const store = join(app, 'node_modules/.pnpm/@firestore-tally+cli@1.2.3/node_modules');
    const elsewhere = join(app, `node_modules/.pnpm/@firestore-tally+cli-${machine}@1.2.3/node_modules`, packaged);
    program(elsewhere, 'own');
    launcher(join(store, cli));
    mkdirSync(join(app, 'node_modules/@firestore-tally'));
    symlinkSync(elsewhere, join(store, packaged));
    symlinkSync(join(store, cli), join(app, 'node_modules', cli));
    return join(app, 'node_modules', cli, 'tally.js');
  },
};

for (const [name, install] of Object.entries(layouts)) {
  test(`the program ${name}`, () => {
    const file = install(mkdtempSync(join(work, 'app-')));
    assert.deepEqual(run(file), { status: 0, out: 'own', err: '' });
  });
}

test('a program in a folder above is not run', () => {
  const above = mkdtempSync(join(work, 'above-'));
  program(join(above, 'node_modules', packaged), "somebody else's");
  for (const app of ['app', 'app/packages/one']) {
    const { status, out, err } = run(launcher(join(above, app, 'node_modules', cli)));
    assert.deepEqual({ status, out }, { status: 1, out: '' });
    assert.match(err, new RegExp(`^tally: ${packaged} is not installed`));
  }
});

test("a program that NODE_PATH names is not run, nor one in the user's folders", () => {
  const elsewhere = mkdtempSync(join(work, 'elsewhere-'));
  for (const folder of ['modules', '.node_modules', '.node_libraries'])
    program(join(elsewhere, folder, packaged), 'foreign');
  const file = launcher(join(mkdtempSync(join(work, 'app-')), 'node_modules', cli));
  const env = { ...process.env, HOME: elsewhere, NODE_PATH: join(elsewhere, 'modules') };
  const { status, stdout } = spawnSync(process.execPath, [file], { env, encoding: 'utf8' });
  assert.deepEqual({ status, stdout }, { status: 1, stdout: '' });
});

test('a program of another version is not run', () => {
  const modules = join(mkdtempSync(join(work, 'app-')), 'node_modules');
  program(join(modules, packaged), 'older', '1.2.2');
  const { status, out, err } = run(launcher(join(modules, cli)));
  assert.deepEqual({ status, out }, { status: 1, out: '' });
  assert.match(err, new RegExp(`^tally: ${packaged} is version 1\\.2\\.2, and ${cli} is 1\\.2\\.3`));
  assert.match(err, /install again/);
});

test('a package without its program, or whose manifest is broken, is named', () => {
  const modules = join(mkdtempSync(join(work, 'app-')), 'node_modules');
  program(join(modules, packaged), 'own');
  const file = launcher(join(modules, cli));

  rmSync(join(modules, packaged, 'tally'));
  const without = run(file);
  assert.equal(without.status, 1);
  assert.match(without.err, /^tally: .*tally.*ENOENT/);

  writeFileSync(join(modules, packaged, 'package.json'), '{');
  const broken = run(file);
  assert.equal(broken.status, 1);
  assert.match(broken.err, new RegExp(`^tally: could not read .*${machine}.package\\.json: `));
  assert.doesNotMatch(broken.err, /at .*tally\.js/, 'a stack trace');
});

test("the program that Yarn's Plug'n'Play names", () => {
  // Yarn keeps packages anywhere, and answers what a package may import by .pnp.cjs, which it makes
  // Node.js load first. This one knows one package, as Yarn's does after an install.
  const app = mkdtempSync(join(work, 'pnp-'));
  const unplugged = join(app, '.yarn/unplugged', `cli-${machine}`, 'node_modules', packaged);
  program(unplugged, 'own');
  write(app, {
    '.pnp.cjs': `process.versions.pnp = '3';
const Module = require('node:module');
const original = Module._resolveFilename;
Module._resolveFilename = (request, ...rest) =>
  request.startsWith('${packaged}/') ? request.replace('${packaged}', ${JSON.stringify(unplugged)}) : original(request, ...rest);`,
  });
  const file = launcher(join(app, '.yarn/cache/cli/node_modules', cli));
  assert.deepEqual(run(file, '--require', join(app, '.pnp.cjs')), { status: 0, out: 'own', err: '' });
});
