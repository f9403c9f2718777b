// A blog: posts, likes, comments that the post's author approves, what trends, and karma. The app
// writes documents and listens to documents. Tally keeps the totals in them, by tally.yaml. Tally's
// web client shows a user's own like in the total at once.
import { initializeApp } from 'firebase/app';
import {
  addDoc,
  collection,
  connectFirestoreEmulator,
  doc,
  getFirestore,
  limit,
  onSnapshot,
  orderBy,
  query,
  serverTimestamp,
  setDoc,
  updateDoc,
  where,
} from 'firebase/firestore';
import { like, total } from '@firestore-tally/web';

const $ = (selector, parent = document) => parent.querySelector(selector);

// An app has its Firebase configuration here, and signs users in with Firebase Authentication.
const user = new URLSearchParams(location.search).get('user') ?? 'ann';
const db = getFirestore(initializeApp({ projectId: 'demo-blog' }));
connectFirestoreEmulator(db, '127.0.0.1', 8080, { mockUserToken: { sub: user } });

// ---- What users do ----

// The document that holds the user's karma. A listener knows whether it is there, also offline.
const author = doc(db, 'authors', user);
let joined = false;
onSnapshot(author, (author) => (joined = author.exists()), complain);

/** Makes that document: Tally writes totals into documents that exist. */
async function join() {
  if (!joined) await setDoc(author, { karma: 0 });
}

/**
 * Writes a post. It has totals at once, so that lists sorted by them include it. Offline, both writes
 * wait until the server can be reached.
 */
async function publish(title) {
  // If the document was there all the same, the rules refuse another.
  join().catch((error) => error.code === 'permission-denied' || complain(error));
  const post = doc(db, 'posts', `${user}_${crypto.randomUUID()}`); // an id belongs to its author
  await setDoc(post, { author: user, title, at: serverTimestamp(), likes: 0, trending: 0, comments: 0 });
}

const commentsOf = (post) => collection(db, 'posts', post, 'comments');
const comment = (post, text) => addDoc(commentsOf(post), { by: user, text, approved: false });
const approve = (comment) => updateDoc(comment, { approved: true });

// ---- What users see ----

/** Shows the newest ten posts, or those that have most of a total, now and whenever one changes. */
function showPosts(order) {
  const ten = query(collection(db, 'posts'), orderBy(order, 'desc'), limit(10));
  const show = ({ docs }) => {
    const shown = docs.map(showPost);
    const moved = shown.some((article, i) => article !== $('#posts').children[i]);
    if (moved) $('#posts').replaceChildren(...shown); // else somebody who writes a comment goes on
    $('#posts').hidden = false;

    for (const [id, article] of articles) {
      if (shown.includes(article)) continue;
      article.stop(); // a listener costs a read for each change
      articles.delete(id);
    }
  };
  return onSnapshot(ten, show, complain);
}

const articles = new Map(); // by a post's id

/** Brings a post's article up to date. */
function showPost(post) {
  if (!articles.has(post.id)) articles.set(post.id, newArticle(post.id, post.get('author')));
  const article = articles.get(post.id);
  for (const field of ['title', 'author', 'trending', 'comments']) {
    $(`.${field}`, article).textContent = post.get(field);
  }
  return article;
}

/** Makes the article of a post, which shows its likes, whether the user likes it, and its comments. */
function newArticle(post, author) {
  const article = $('#post').content.cloneNode(true).firstElementChild;
  const button = $('.like', article);
  const own = like(db, `posts/${post}/likes`, { uid: user });
  button.onclick = () => attempt(button.ariaPressed === 'true' ? own.unset() : own.set());
  const showLike = (liked) => {
    button.ariaPressed = String(liked);
    button.disabled = false;
  };
  const stopLike = own.onLiked(showLike, complain);
  const showLikes = ({ total }) => ($('.likes', article).textContent = total);
  const stopLikes = total(db, `posts/${post}`, 'likes').onTotal(showLikes, complain);

  $('form', article).onsubmit = (event) => submit(event, ({ text }) => comment(post, text));
  const all = author === user ? [] : [where('approved', '==', true)]; // only the author sees those that wait
  const hundred = query(commentsOf(post), ...all, limit(100));
  const showComments = ({ docs }) => $('ul', article).replaceChildren(...docs.map(showComment));
  const stopComments = onSnapshot(hundred, showComments, complain);
  article.stop = () => {
    stopLike();
    stopLikes();
    stopComments();
  };
  return article;
}

function showComment(comment) {
  const item = document.createElement('li');
  item.textContent = `${comment.get('by')}: ${comment.get('text')} `;
  if (!comment.get('approved')) {
    const button = document.createElement('button');
    button.textContent = 'Approve';
    button.onclick = () => attempt(approve(comment.ref));
    item.append(button);
  }
  return item;
}

/** Shows the ten authors with the most karma. */
function showAuthors() {
  const ten = query(collection(db, 'authors'), orderBy('karma', 'desc'), limit(10));
  const show = (author) => {
    const item = document.createElement('li');
    item.textContent = `${author.id}: ${author.get('karma')}`;
    return item;
  };
  onSnapshot(ten, ({ docs }) => $('#authors').replaceChildren(...docs.map(show)), complain);
}

// ---- The page ----

/** Does what a form asks for, and empties the form; if that fails, it has its text again. */
async function submit(event, act) {
  event.preventDefault();
  const form = event.target;
  const fields = Object.fromEntries(new FormData(form));
  form.reset();
  if (await attempt(act(fields))) return;
  for (const [name, text] of Object.entries(fields)) form[name].value ||= text;
}

/** Waits until a write is done. Returns whether it was. */
async function attempt(write) {
  $('#problem').textContent = '';
  return write.then(
    () => true,
    (error) => complain(error),
  );
}

function complain(error) {
  console.warn(error);
  $('#problem').textContent = error.code === 'permission-denied' ? 'Sorry, that isn’t allowed.' : error.message;
  return false;
}

$('#user').user.value = user;
$('#user').onchange = ({ currentTarget }) => currentTarget.submit();
$('#publish').onsubmit = (event) => submit(event, ({ title }) => publish(title));

let stop = showPosts($('#order').value);
$('#order').onchange = ({ target }) => {
  stop();
  stop = showPosts(target.value);
};
showAuthors();
