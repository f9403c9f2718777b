// What index.d.ts declares is what the code is, or tsc fails here.
import type { Firestore, Timestamp } from 'firebase/firestore';
import { counter } from '../src/counter.js';
import { TallyError } from '../src/errors.js';
import { like } from '../src/like.js';
import { total } from '../src/total.js';

export const made: typeof import('../src/index.js') = { counter, like, TallyError, total };

// A total is a number unless the app says what else it is.
declare const db: Firestore;
made.counter(db, 'counters/likes').onTotal(({ total }) => total.toFixed());
made.total<Timestamp | null>(db, 'posts/7', 'last').onTotal(({ total }) => total?.toDate());
// @ts-expect-error a total that may be null is no number
made.total<number | null>(db, 'posts/7', 'best').onTotal(({ total }) => total.toFixed());
// @ts-expect-error a like is a user's
made.like(db, 'posts/7/likes');
