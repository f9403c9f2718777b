// A blog: posts, likes, comments that the post's author approves, what trends, and karma. The app
// writes documents and listens to documents. Tally keeps the totals in them, by tally.yaml.
import { initializeApp } from 'firebase/app';
import {
  addDoc,
  collection,
  connectFirestoreEmulator,
  deleteDoc,
  doc,
  getDoc,
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

const $ = (selector, parent = document) => parent.querySelector(selector);

// An app has its Firebase configuration here, and signs users in with Firebase Authentication.
const user = new URLSearchParams(location.search).get('user') ?? 'ann';
const db = getFirestore(initializeApp({ projectId: 'demo-blog' }));
connectFirestoreEmulator(db, '127.0.0.1', 8080, { mockUserToken: { sub: user } });

// ---- What users do ----

/** Makes the document that holds the user's karma: Tally writes totals into documents that exist. */
async function join() {
  const author = doc(db, 'authors', user);
  if (!(await getDoc(author)).exists()) await setDoc(author, { karma: 0 });
}

/** Writes a post. It has totals at once, so that lists sorted by them include it. */
async function publish(title) {
  await join();
  const post = doc(db, 'posts', `${user}_${crypto.randomUUID()}`); // an id belongs to its author
  await setDoc(post, { author: user, title, at: serverTimestamp(), likes: 0, trending: 0, comments: 0 });
}

const likeOf = (post) => doc(db, 'posts', post, 'likes', user);
const like = (post) => setDoc(likeOf(post), { at: serverTimestamp() });
const unlike = (post) => deleteDoc(likeOf(post));

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
  for (const field of ['title', 'author', 'likes', 'trending', 'comments']) {
    $(`.${field}`, article).textContent = post.get(field);
  }
  return article;
}

/** Makes the article of a post, which shows whether the user likes it, and its comments. */
function newArticle(post, author) {
  const article = $('#post').content.cloneNode(true).firstElementChild;
  const button = $('.like', article);
  button.onclick = () => attempt(button.ariaPressed === 'true' ? unlike(post) : like(post));
  const showLike = (like) => {
    button.ariaPressed = String(like.exists());
    button.disabled = false;
  };
  const stopLike = onSnapshot(likeOf(post), showLike, complain);

  $('form', article).onsubmit = (event) => submit(event, ({ text }) => comment(post, text));
  const all = author === user ? [] : [where('approved', '==', true)]; // only the author sees those that wait
  const hundred = query(commentsOf(post), ...all, limit(100));
  const showComments = ({ docs }) => $('ul', article).replaceChildren(...docs.map(showComment));
  const stopComments = onSnapshot(hundred, showComments, complain);
  article.stop = () => {
    stopLike();
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

/** Does what a form asks for, and empties the form. */
async function submit(event, act) {
  event.preventDefault();
  const form = event.target;
  if (await attempt(act(Object.fromEntries(new FormData(form))))) form.reset();
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
