// The rules for all JavaScript and TypeScript of the repository: `npm run lint` here. Prettier lays
// clients/web out, and tsc checks its types.
import js from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import globals from 'globals';
import tseslint from 'typescript-eslint';

export default defineConfig(
  globalIgnores(['**/node_modules/', '**/.venv/']),
  js.configs.recommended,
  {
    languageOptions: { globals: globals.browser },
    rules: {
      // A name that is left out of an object: const { at, ...rest } = saved.
      'no-unused-vars': ['error', { ignoreRestSiblings: true }],
    },
  },
  {
    // The launcher of the command line, and what starts an example.
    files: ['npm/*.js', 'examples/*/start.mjs'],
    languageOptions: { globals: globals.node },
  },
  {
    // Tests hand functions to pages, which have names of their own.
    files: ['**/{test,e2e,browser}/**'],
    rules: { 'no-undef': 'off' },
  },
  {
    // The client, which apps install. The pages and tests have no types: tsc does not check them.
    files: ['clients/web/src/**', 'clients/web/test/types.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // A number in a message needs no conversion.
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      // A callback of one call is an expression, also if the call returns nothing.
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      // It does not see a type that a comment gives to what JSON.parse or a document's data() returns.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      // TallyError is written in errors.js and declared in index.d.ts; test/types.ts holds them equal.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
    },
  },
);
