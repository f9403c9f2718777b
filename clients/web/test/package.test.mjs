import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { parts, size } from './size.mjs';

const read = (name) => readFile(new URL(`../${name}`, import.meta.url), 'utf8');

test('no part is larger than it may be, and the sizes that the README states are right within 3 %', async () => {
  const [, ...stated] = /\*\*([\d,]+) bytes\*\* .*?, counters ([\d,]+), and both together ([\d,]+),/.exec(
    await read('README.md'),
  );
  for (const [i, [part, { app, most }]] of Object.entries(parts).entries()) {
    const { gzipped } = await size(app);
    assert.ok(gzipped <= most, `${part}: ${gzipped} bytes, at most ${most}`);
    const difference = Number(stated[i].replace(',', '')) / gzipped - 1;
    assert.ok(Math.abs(difference) <= 0.03, `${part}: README.md says ${stated[i]}, npm run size ${gzipped}`);
  }
});

test('an app has only what it imports, and only the SDK in addition', async () => {
  const { dependencies, peerDependencies } = JSON.parse(await read('package.json'));
  assert.equal(dependencies, undefined);
  assert.deepEqual(Object.keys(peerDependencies), ['firebase']);
  assert.ok((await size(`import { TallyError } from './src/index.js'; console.log(TallyError);`)).minified < 300);
});

test('package.json and the README name the versions of firebase that the tests in a browser run with', async () => {
  const { devDependencies, peerDependencies } = JSON.parse(await read('package.json'));
  const [, oldest, short] = /^npm:firebase@((\d+\.\d+)\.\d+)$/.exec(devDependencies['firebase-oldest']);
  const newest = parseInt(devDependencies.firebase);
  assert.equal(peerDependencies.firebase, `>=${oldest} <${newest + 1}`);
  const [, stated] = /It needs `firebase` ([\d.]+ to \d+)/.exec(await read('README.md'));
  assert.equal(stated, `${short} to ${newest}`);
});

test('the blog takes the newest of them from Google', async () => {
  const { devDependencies } = JSON.parse(await read('package.json'));
  const page = await read('../../examples/blog/index.html');
  const versions = [...page.matchAll(/firebasejs\/([\d.]+)\//g)].map(([, version]) => version);
  assert.deepEqual(versions, [devDependencies.firebase, devDependencies.firebase]);
});

test('the README names every error code, and no other', async () => {
  const codes = (text, pattern) => [...text.matchAll(pattern)].map(([, code]) => code).sort();
  const [, type] = /type TallyErrorCode =([^;]*);/.exec(await read('src/index.d.ts'));
  const declared = codes(type, /'([a-z-]+)'/g);
  assert.ok(declared.length > 0);
  const [, errors] = (await read('README.md')).split(/^## Errors$|^## Limits$/m);
  assert.deepEqual(codes(errors, /^\| `([a-z-]+)` \|/gm), declared);
});
