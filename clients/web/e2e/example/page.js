// What an app does with @firestore-tally/web. All else here is the page's own.
import { initializeApp } from 'firebase/app';
import {
  connectFirestoreEmulator,
  initializeFirestore,
  memoryLocalCache,
  persistentLocalCache,
  persistentMultipleTabManager,
} from 'firebase/firestore';
import { counter } from '@firestore-tally/web';

const $ = (selector) => document.querySelector(selector);

// The user of ?user=, else one for each browser profile; "" is no user.
const asked = new URLSearchParams(location.search);
const guest = (localStorage['tally-example-user'] ??= `guest-${crypto.randomUUID().slice(0, 8)}`);
const user = (asked.get('user') ?? guest).trim();
const persist = asked.has('persist');
$('[name=user]').value = user;
$('[name=persist]').checked = persist;

// Where Firestore is and what the counters are called, as serve.mjs serves it. An app has its
// Firebase configuration here.
const config = await (await fetch('config.json')).json();

const app = initializeApp({ projectId: config.projectId });
const localCache = persist ? persistentLocalCache({ tabManager: persistentMultipleTabManager() }) : memoryLocalCache();
const db = initializeFirestore(app, { localCache }, config.databaseId);
connectFirestoreEmulator(db, config.host, config.port, user ? { mockUserToken: { sub: user } } : {});

const likes = counter(db, config.likes, { uid: user });
const vote = counter(db, config.vote, { uid: user });

const totals = {};
show();
likes.onTotal((total) => show({ likes: total }), complain);
vote.onTotal((total) => show({ vote: total }), complain);

$('#likes .act').onclick = () => attempt(likes.increment());
$('#likes .exact').onclick = () => attempt(likes.exact().then(showExact));

let voted = false;
$('#vote .act').onclick = async () => {
  showVoted(!voted);
  if (!(await attempt(voted ? vote.vote() : vote.unvote()))) readVoted();
};
readVoted();

/** Shows whether the user has voted. Offline, the page keeps what it shows. */
function readVoted() {
  if (user) vote.hasVoted().then(showVoted, (error) => error.code === 'unavailable' || complain(error));
  else showVoted(false);
}

function showVoted(now) {
  voted = now;
  $('#vote .act').textContent = voted ? 'Take it back' : 'Vote';
  $('#vote .act').classList.toggle('given', voted);
}

function showExact(sum) {
  $('.check [role=status]').textContent = `${sum.toLocaleString()} at ${new Date().toLocaleTimeString()}`;
}

/** Shows a new total, and what is online or not. */
function show(news) {
  $('#connection').textContent = navigator.onLine ? 'Online' : 'Offline';
  const where = navigator.onLine ? 'on the way' : 'waiting until you’re back online';
  Object.assign(totals, news);
  for (const [id, { total, asOf, pending }] of Object.entries(totals)) {
    $(`#${id} data`).value = total;
    $(`#${id} data`).textContent = total.toLocaleString();
    $(`#${id} .age`).textContent = asOf ? `Counted at ${asOf.toDate().toLocaleString()}` : 'Not counted yet';
    $(`#${id} .pending`).textContent = pending ? `${pending} of yours ${where}` : '';
  }
}
ononline = onoffline = () => show();

/** Waits for what a visitor asked for, and says so if it fails. Returns whether it went well. */
async function attempt(promise) {
  const error = await promise.then(
    () => null,
    (error) => error,
  );
  complain(error);
  return error === null;
}

/** Tells visitors of an error by its code, and the app's developers on the console. Null: none. */
function complain(error) {
  const sentences = {
    'not-signed-in': 'Please enter your name below first.',
    'permission-denied': 'Sorry, that isn’t allowed.',
    unavailable: 'You seem to be offline. Please try again in a moment.',
  };
  $('#problem').textContent = error ? (sentences[error.code] ?? 'Sorry, that didn’t work. Please try again.') : '';
  if (error) console.warn(error);
}
