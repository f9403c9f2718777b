// What index.d.ts declares is what the code is, or tsc fails here.
import { counter } from '../src/counter.js';
import { TallyError } from '../src/errors.js';

export const made: typeof import('../src/index.js') = { counter, TallyError };
