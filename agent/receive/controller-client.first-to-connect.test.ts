import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { firstToConnect, NoAnswer, type RequestAttempt } from './controller-client.ts';
import { type Destination, Destinations } from './destinations.ts';

const ALL: readonly Destination[] = ['service', 'a', 'b'].map((host) => ({ host, port: 1 }));
const [SERVICE = assert.fail(), ...REPLICAS] = ALL;

/** The end of an attempt: an HTTP status, silence, or an error after the request was sent. */
type Outcome = number | 'silent' | 'lost';

describe('a request that tries one destination after the other', () => {
  let attempts: [string, number][];
  let destinations: Destinations;
  const aborted = new AbortController();
  const open = new AbortController().signal;

  beforeEach(() => {
    attempts = [];
    let drawn = 0;
    const parts = { service: SERVICE, replicas: () => REPLICAS, clock: fakeClock() };
    destinations = new Destinations({ ...parts, random: () => drawn++ });
  });

  async function ask(outcomes: Readonly<Record<string, Outcome>>, signal = open): Promise<string> {
    const call = async ({
      destination,
      connectTimeout,
      connected,
    }: RequestAttempt): Promise<IncomingMessage> => {
      attempts.push([destination.host, connectTimeout]);
      const outcome = outcomes[destination.host] ?? assert.fail(`${destination.host} was tried`);
      if (outcome === 'silent') throw new Error('silent');
      connected();
      if (outcome === 'lost') throw new Error('lost');
      return { statusCode: outcome } as IncomingMessage;
    };
    try {
      return String((await firstToConnect(destinations, call, signal)).statusCode);
    } catch (error) {
      assert.ok(error instanceof NoAnswer);
      return error.failures.map((one) => `${one.destination.host}: ${one.error.message}`).join();
    }
  }
  const first = (): string | undefined => destinations.inOrder()[0]?.host;

  it('asks the Service alone where it answers', async () => {
    assert.equal(await ask({ service: 200 }), '200');
    assert.deepEqual(attempts, [['service', 1_000]]);
  });

  it('asks a controller itself where the Service takes no connection, and later ones at once', async () => {
    assert.equal(await ask({ service: 'silent', a: 'silent', b: 200 }), '200');
    assert.deepEqual(attempts, [
      ['service', 1_000],
      ['a', 1_000],
      ['b', 5_000],
    ]);
    assert.equal(await ask({ b: 200 }), '200');
  });

  it('says what became of each, if none takes a connection', async () => {
    assert.equal(
      await ask({ service: 'silent', a: 'silent', b: 'silent' }),
      'service: silent,a: silent,b: silent',
    );
  });

  it('asks nobody else what a server may have received; the next request goes elsewhere', async () => {
    assert.equal(await ask({ service: 'lost' }), 'service: lost');
    assert.equal(first(), 'a');
  });

  it('goes elsewhere after an answer that another controller may not give', async () => {
    for (const status of [503, 421]) {
      assert.equal(await ask({ [first() ?? '']: status }), String(status));
    }
    assert.deepEqual(
      attempts.map(([host]) => host),
      ['service', 'a'],
    );
    assert.equal(first(), 'b');
  });

  it('stays with a controller that refuses', async () => {
    assert.equal(await ask({ service: 403 }), '403');
    assert.equal(first(), 'service');
  });

  it('ends with its signal', async () => {
    aborted.abort();
    assert.equal(await ask({ service: 'silent' }, aborted.signal), 'service: silent');
  });
});
