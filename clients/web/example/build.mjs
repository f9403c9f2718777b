// Builds the example page into dist/. index.html comes last, in one step: while it is not there, the page is not built.
import { build } from 'esbuild';
import { copyFile, rename, rm } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

await rm(at('dist'), { recursive: true, force: true });
await build({
  entryPoints: [at('page.js'), at('page.css')],
  outdir: at('dist'),
  bundle: true,
  minify: true,
  sourcemap: true,
  format: 'esm',
  target: 'es2022',
});
await copyFile(at('index.html'), at('dist/index.html.new'));
await rename(at('dist/index.html.new'), at('dist/index.html'));
