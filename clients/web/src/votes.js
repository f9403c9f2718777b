/*
 * Users' votes: each is a document that says 1 or 0. The total shown has a vote of this page as
 * soon as it is cast. A vote that is not known counts as 0.
 */
import { restored } from './earlier.js';
import { denied } from './errors.js';
import { doc, getDoc, getDocFromCache, onSnapshot, orNull, setDoc, voteOf } from './sdk.js';
import { acknowledged, refused } from './settle.js';

/** @import { DocumentSnapshot } from 'firebase/firestore' */
/** @import { State } from './state.js' */

/**
 * The votes of a user that are on their way.
 *
 * @typedef {object} Ballot
 * @property {number} waiting How many they are.
 * @property {number} settled The vote if all of them are refused.
 */

/**
 * Sets a user's vote. The total shown has it as soon as the SDK's cache has told what the vote was.
 * If it fails, this rejects with Firestore's error, and the vote is what it was. If the rules
 * refused it, the counter's document has been read since.
 *
 * @param {State} state
 * @param {string} uid
 * @param {0 | 1} vote
 */
export async function cast(state, uid, vote) {
  const ballot = await ballotOf(state, uid);

  // There must be no await between reading the vote and setting it: otherwise another vote could
  // come between.
  const { feed, votes, writes } = state;
  const before = votes.get(uid) ?? 0;
  votes.set(uid, vote);
  if (ballot.waiting === 0) ballot.settled = before;
  ballot.waiting++;

  const write = vote === before ? null : writes.tap(vote - before, uid);
  if (write) writes.send(write, uid);
  feed.show();

  try {
    // The vote is sent even if it seems to change nothing: another device may have voted since.
    await setDoc(doc(state.shards, uid), { [state.field]: vote });
  } catch (error) {
    ballot.waiting--;
    if (ballot.waiting === 0) votes.set(uid, ballot.settled);
    if (write) refused(state, write);
    if (denied(error)) await state.document.read();
    throw error;
  }
  ballot.waiting--;
  ballot.settled = vote;
  if (write) acknowledged(state, write);
}

/**
 * Resolves when the vote in the SDK's cache is known. Several calls resolve in their order.
 *
 * @param {State} state
 * @param {string} uid
 */
function ballotOf(state, uid) {
  const known = state.ballots.get(uid) ?? readBallot(state, uid);
  state.ballots.set(uid, known);
  return known;
}

/** @type {(state: State, uid: string) => Promise<Ballot>} */
async function readBallot(state, uid) {
  await restored(state);
  const cached = await orNull(getDocFromCache, doc(state.shards, uid));
  if (!state.votes.has(uid)) state.votes.set(uid, voteOf(cached, state.field));
  return { waiting: 0, settled: 0 };
}

/**
 * Reads whether a user has voted.
 *
 * @param {State} state
 * @param {string} uid
 */
export async function read(state, uid) {
  heard(state, uid, await getDoc(doc(state.shards, uid)));
  return state.votes.get(uid) === 1;
}

/**
 * Takes the vote that a document says, unless a vote of this page is on its way: that is newer.
 * Returns the vote that the document says.
 *
 * @param {State} state
 * @param {string} uid
 * @param {DocumentSnapshot} snapshot
 */
export function heard({ field, votes, writes }, uid, snapshot) {
  // Offline, the SDK says that a document is missing if its cache has dropped it.
  const dropped = !snapshot.exists() && snapshot.metadata.fromCache;
  const known = dropped ? votes.get(uid) : undefined;
  const vote = known ?? voteOf(snapshot, field);

  if (writes.to(uid).every((write) => write.acknowledged)) votes.set(uid, vote);
  return vote;
}

/**
 * Tells next whether a user has voted, now and whenever that changes. A vote that is still on its
 * way to the server counts.
 *
 * @param {State} state
 * @param {string} uid
 * @param {(voted: boolean) => void} next
 * @param {(error: unknown) => void} error
 */
export function observe(state, uid, next, error) {
  /** @type {number | null} */
  let told = null;
  return onSnapshot(
    doc(state.shards, uid),
    (snapshot) => {
      const vote = heard(state, uid, snapshot);
      if (vote === told) return;

      told = vote;
      next(vote === 1);
    },
    error,
  );
}
