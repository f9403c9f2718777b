export { counter } from './counter.js';
export type { Counter, CounterOptions } from './counter.js';
export type { Total } from './state.js';
export { TallyError } from './errors.js';
export type { TallyErrorCode } from './errors.js';
