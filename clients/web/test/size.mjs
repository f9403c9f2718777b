// Prints what the package adds to an app, without the Firebase SDK.
import { build } from 'esbuild';
import { gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';

const directory = fileURLToPath(new URL('..', import.meta.url));

/**
 * The bytes of an app, bundled and minified, and gzipped.
 */
export async function size(app) {
  const { outputFiles } = await build({
    stdin: { contents: app, resolveDir: directory },
    bundle: true,
    minify: true,
    format: 'esm',
    external: ['firebase/*'],
    write: false,
  });
  const code = outputFiles[0].contents;
  return { minified: code.length, gzipped: gzipSync(code, { level: 9 }).length };
}

/** What apps take of the package, and how many bytes that may be at most, gzipped. */
export const parts = {
  'like and total': { app: `export { like, total } from './src/index.js';`, most: 4_600 },
  counter: { app: `export { counter } from './src/index.js';`, most: 4_750 },
  all: { app: `export * from './src/index.js';`, most: 6_600 },
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [part, { app }] of Object.entries(parts)) {
    const { minified, gzipped } = await size(app);
    console.log(`${part}: ${minified} bytes minified, ${gzipped} bytes gzipped`);
  }
}
