// Runs the recipes' code under the rules that tally init writes: see recipes.test.mjs.
process.env.RULES_OF = 'init';
await import('./recipes.test.mjs');
