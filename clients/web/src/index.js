export { counter } from './counter.js';
export { like } from './like.js';
export { total } from './total.js';
export { TallyError } from './errors.js';
