export { counter } from './counter.js';
export { TallyError } from './errors.js';
