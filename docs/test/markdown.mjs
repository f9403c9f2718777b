// Code in Markdown, as it stands there.
import { rm, writeFile } from 'node:fs/promises';

/** What stands below a heading, until the next one. */
export function below(heading, text) {
  return text.split(/^##+ /m).find((section) => section.startsWith(`${heading}\n`)) ?? '';
}

/** The blocks of code in a text; those of the language '' say none. */
export function blocks(text, language) {
  const all = [...text.matchAll(/^```(.*?)\n(.*?)^```$/gms)];
  return all.filter(([, name]) => name === language).map(([, , code]) => code);
}

/** Imports JavaScript. Packages resolve from this folder. */
export async function imported(code) {
  const file = new URL(`.snippet-${process.pid}-${++files}.mjs`, import.meta.url);
  await writeFile(file, code);
  try {
    return await import(file);
  } finally {
    await rm(file);
  }
}
let files = 0;
