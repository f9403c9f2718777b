// Prints what the package adds to an app: all of it, bundled and minified without the Firebase SDK, and gzipped.
import { build } from 'esbuild';
import { gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';

/** The bytes of the package, minified and then gzipped. Wants it built. */
export async function size() {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('dist/index.js', import.meta.url))],
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
