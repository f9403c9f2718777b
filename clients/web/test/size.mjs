// Prints what the package adds to an app, without the Firebase SDK.
import { build } from 'esbuild';
import { gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';

const directory = fileURLToPath(new URL('..', import.meta.url));

/**
 * The bytes of an app, by default one that uses all of the package, bundled and minified, and
 * gzipped.
 */
export async function size(app = `export * from './src/index.js';`) {
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { minified, gzipped } = await size();
  console.log(`${minified} bytes minified, ${gzipped} bytes gzipped`);
}
