// A line to Firestore that signs in.
import { connect, constants, createServer } from 'node:http2';
import { listening } from '../../clients/web/e2e/loopback.mjs';

/** A user's ID token; '' if uid is ''. The emulator takes a token without a signature. */
export function idToken(uid) {
  const part = (text) => Buffer.from(JSON.stringify(text)).toString('base64url');
  return uid && `${part({ alg: 'none' })}.${part({ sub: uid })}.`;
}

/**
 * Passes gRPC on to a port of this machine as a user, whatever an SDK says of itself: those for
 * servers are past the rules.
 */
export async function startSignIn(port, uid) {
  const token = idToken(uid);
  const far = connect(`http://127.0.0.1:${port}`);
  const open = new Set();
  const server = createServer();
  server.on('session', (session) => {
    open.add(session);
    session.on('error', () => {}); // 'close' follows
    session.on('close', () => open.delete(session));
  });
  server.on('stream', (near, { authorization: _, ...headers }) => {
    const request = far.request({ ...headers, authorization: `Bearer ${token}` });
    request.on('response', (answer, flags) => {
      const endStream = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0; // an error comes without a body
      near.respond(answer, endStream ? { endStream } : { waitForTrailers: true });
    });
    let trailers = {};
    request.on('trailers', (sent) => (trailers = sent));
    near.on('wantTrailers', () => near.sendTrailers(trailers));
    near.on('close', () => request.destroy());
    for (const stream of [near, request]) stream.on('error', () => near.destroy());
    near.pipe(request);
    request.pipe(near);
  });
  const { port: own, close } = await listening(server);
  return {
    port: own,
    token,
    close() {
      far.destroy();
      open.forEach((session) => session.destroy());
      return close();
    },
  };
}
