// Servers of tests, on this machine only. It imports no package: tests of other folders use it, too.

/** Starts a server at a free port. `close` breaks its connections and waits until it has ended. */
export function listening(server) {
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const close = () => new Promise((done) => (server.closeAllConnections?.(), server.close(done)));
      resolve({ port: server.address().port, close });
    });
  });
}
