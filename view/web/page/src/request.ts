const pause = 500; // milliseconds

/**
 * request is fetch for requests that change nothing on the server: if there is no response, it retries once. Browsers
 * drop requests when an address of the machine changes, as when the bridge of a microVM is created.
 */
export async function request(address: string, init: RequestInit = {}): Promise<Response> {
  try {
    return await fetch(address, init);
  } catch (e) {
    if (init.signal?.aborted) throw e;
    await new Promise((done) => setTimeout(done, pause));
    return fetch(address, init);
  }
}
