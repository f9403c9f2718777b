// What index.d.ts declares is what the code is, or tsc fails here.
import type { Firestore, Timestamp } from 'firebase/firestore';
import { counter } from '../src/counter.js';
import { TallyError } from '../src/errors.js';

export const made: typeof import('../src/index.js') = { counter, TallyError };

// A total is a number unless the app says what else it is.
declare const db: Firestore;
made.counter(db, 'counters/likes').onTotal(({ total }) => total.toFixed());
made.counter<Timestamp | null>(db, 'posts/7', { total: 'last' }).onTotal(({ total }) => total?.toDate());
// @ts-expect-error a total that may be null is no number
made.counter<number | null>(db, 'posts/7', { total: 'best' }).onTotal(({ total }) => total.toFixed());
