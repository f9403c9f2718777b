import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { size } from './size.mjs';

const read = (name) => readFile(new URL(`../${name}`, import.meta.url), 'utf8');

test('the size that the README states is right within 3 %, and at most 5,500 bytes', async () => {
  const [, stated] = /\*\*([\d,]+) bytes\*\* gzipped/.exec(await read('README.md'));
  const { gzipped } = await size();
  assert.ok(gzipped <= 5500, `npm run size ${gzipped}`);
  const difference = Number(stated.replace(',', '')) / gzipped - 1;
  assert.ok(Math.abs(difference) <= 0.03, `README.md says ${stated}, npm run size ${gzipped}`);
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

test('example pages take the newest of them from Google', async () => {
  const { devDependencies } = JSON.parse(await read('package.json'));
  for (const page of ['e2e/example/index.html', '../../examples/blog/index.html']) {
    const versions = [...(await read(page)).matchAll(/firebasejs\/([\d.]+)\//g)].map(([, version]) => version);
    assert.deepEqual(versions, [devDependencies.firebase, devDependencies.firebase], page);
  }
});

test('the README names every error code, and no other', async () => {
  const codes = (text, pattern) => [...text.matchAll(pattern)].map(([, code]) => code).sort();
  const [, type] = /type TallyErrorCode =([^;]*);/.exec(await read('src/index.d.ts'));
  const declared = codes(type, /'([a-z-]+)'/g);
  assert.ok(declared.length > 0);
  const [, errors] = (await read('README.md')).split(/^## Errors$|^## Limits$/m);
  assert.deepEqual(codes(errors, /^\| `([a-z-]+)` \|/gm), declared);
});
