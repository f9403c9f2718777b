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

const asked = new URLSearchParams(location.search);
const persist = asked.has('persist');
const user = userHere();

const form = document.querySelector('form');
form.user.value = user;
form.persist.checked = persist;

const connection = document.querySelector('#connection');
function showConnection() {
  connection.textContent = navigator.onLine ? 'Online' : 'Offline';
  connection.classList.toggle('offline', !navigator.onLine);
}
addEventListener('online', showConnection);
addEventListener('offline', showConnection);
showConnection();

// Where Firestore is and what the counters are called, as tally dev serves it. An app has its
// Firebase configuration here.
const config = await (await fetch('config.json')).json();

const app = initializeApp({ projectId: config.projectId });
const localCache = persist ? persistentLocalCache({ tabManager: persistentMultipleTabManager() }) : memoryLocalCache();
const db = initializeFirestore(app, { localCache }, config.databaseId);
connectFirestoreEmulator(db, config.host, config.port, user ? { mockUserToken: { sub: user } } : {});

const likes = counter(db, config.likes, { uid: user });
const vote = counter(db, config.vote, { uid: user });

showTotal(document.querySelector('#likes'), likes, 'like');
showTotal(document.querySelector('#vote'), vote, 'vote');

document.querySelector('#likes .act').addEventListener('click', () => attempt(() => likes.increment()));
document.querySelector('#likes .exact').addEventListener('click', () =>
  attempt(async () => {
    const sum = await likes.exact();
    const check = document.querySelector('#likes .check [role=status]');
    check.textContent = `${sum.toLocaleString()} at ${new Date().toLocaleTimeString()}`;
  }),
);

const voteButton = document.querySelector('#vote .act');
let voted = false;
voteButton.addEventListener('click', async () => {
  const give = !voted;
  showVoted(give);
  const done = await attempt(() => (give ? vote.vote() : vote.unvote()));
  if (!done) showVoted(user ? await vote.hasVoted().catch(() => voted) : false);
});
if (user) vote.hasVoted().then(showVoted, (error) => error.code === 'unavailable' || complain(error)); // offline, nobody knows yet

function showVoted(now) {
  voted = now;
  voteButton.classList.toggle('given', voted);
  voteButton.querySelector('span').textContent = voted ? 'Take it back' : 'Vote';
}

/**
 * Shows a counter's total in a section: the number, how old it is, and what of it is not sent yet.
 */
function showTotal(section, shown, unit) {
  const find = (selector) => section.querySelector(selector);
  let last = null;
  const showRest = () => {
    if (!last) return;
    find('.age').textContent = last.asOf ? `Counted ${age(last.asOf.toDate())}` : 'Not counted yet';
    const where = navigator.onLine ? 'on the way' : 'waiting until you’re back online';
    find('.pending').textContent = last.pending ? `${last.pending} of yours ${where}` : '';
  };
  shown.onTotal((total) => {
    last = total;
    find('data').value = total.total;
    find('data').textContent = total.total.toLocaleString();
    find('.unit').textContent = total.total === 1 ? unit : `${unit}s`;
    showRest();
  }, complain);
  setInterval(showRest, 1000);
  addEventListener('online', showRest);
  addEventListener('offline', showRest);
}

/** How long ago a time was, by this device's clock. */
function age(time) {
  const seconds = Math.max(0, (Date.now() - time) / 1000);
  if (seconds < 2) return 'just now';
  if (seconds < 60) return `${Math.floor(seconds)} seconds ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `on ${time.toLocaleString()}`;
}

/** Does something, and says so if it fails. Returns whether it went well. */
async function attempt(what) {
  try {
    await what();
    complain(null);
    return true;
  } catch (error) {
    complain(error);
    return false;
  }
}

/** What to tell visitors, by the code of a TallyError. */
const sentences = {
  'not-signed-in': 'Please enter your name below first.',
  'permission-denied': 'Sorry, that isn’t allowed.',
  unavailable: 'You seem to be offline. Please try again in a moment.',
};

/** Tells visitors of an error, and the app's developers on the console. Null: none. */
function complain(error) {
  document.querySelector('#problem').textContent = error
    ? (sentences[error.code] ?? 'Sorry, that didn’t work. Please try again.')
    : '';
  if (error) console.warn(error);
}

/** The user of ?user=, else one for each browser profile; "" is nobody. */
function userHere() {
  const key = 'tally-example-user';
  const user = asked.get('user') ?? localStorage.getItem(key) ?? `guest-${crypto.randomUUID().slice(0, 8)}`;
  if (!asked.has('user')) localStorage.setItem(key, user);
  return user.trim();
}
