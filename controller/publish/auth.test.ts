import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { FairQueue } from '../../lib/process/fair-queue.ts';
import {
  type Access,
  type AccessReviewSpec,
  accessAuthoriser,
  boundNode,
  type FrontProxy,
  firstOf,
  frontProxyAuthenticator,
  type TokenOptions,
  type TokenReviewSpec,
  type TokenReviewStatus,
  tokenAuthenticator,
} from './auth.ts';

const AUDIENCE = 'nodewall-controller';

const LONG_QUEUE = { atOnce: 16, most: 1000 };

function bearing(token: string | null, remoteAddress = '10.0.0.1'): IncomingMessage {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  return { headers, socket: { remoteAddress } } as unknown as IncomingMessage;
}

/** A token without a valid signature: only the API server verifies it. */
function jwt(claims: object): string {
  return `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;
}

/** An API server that accepts all tokens and records the reviews. */
function reviewing(
  answer: (spec: TokenReviewSpec) => TokenReviewStatus,
  options: Partial<TokenOptions> = {},
) {
  const asked: TokenReviewSpec[] = [];
  let now = 1_000_000;
  let ahead = 0;
  const authenticate = tokenAuthenticator({
    audiences: [AUDIENCE],
    now: () => now,
    date: () => now + ahead,
    queue: new FairQueue(LONG_QUEUE),
    async review(spec) {
      asked.push(spec);
      return answer(spec);
    },
    ...options,
  });
  return {
    asked,
    authenticate: (token: string | null, from?: string) => authenticate(bearing(token, from)),
    pass: (milliseconds: number) => {
      now += milliseconds;
    },
    step: (milliseconds: number) => {
      ahead += milliseconds;
    },
    now: () => now,
  };
}

const good = ({ token }: TokenReviewSpec): TokenReviewStatus => ({
  authenticated: true,
  audiences: [AUDIENCE],
  user: {
    username: `user of ${token.length}`,
    groups: ['g'],
    extra: { 'authentication.kubernetes.io/node-name': ['cp-1'] },
  },
});

describe('tokenAuthenticator', () => {
  it('returns the user of a token and its node', async () => {
    const { authenticate, asked } = reviewing(good);
    const identity = await authenticate('abc');
    assert.deepEqual(asked, [{ token: 'abc', audiences: [AUDIENCE] }]);
    assert.ok(identity !== null);
    assert.deepEqual(
      [identity.username, identity.uid, identity.groups, identity.expires, boundNode(identity)],
      ['user of 3', '', ['g'], null, 'cp-1'],
    );
  });

  it('returns no user without a token, and sends no review', async () => {
    const { authenticate, asked } = reviewing(good);
    assert.equal(await authenticate(null), null);
    assert.deepEqual(asked, []);
  });

  it('rejects a token that the API server rejects or that has another audience', async () => {
    for (const status of [
      {},
      { ...good({ token: '' }), authenticated: false },
      { ...good({ token: '' }), audiences: ['others'] },
      { ...good({ token: '' }), audiences: [] },
      { authenticated: true, audiences: [AUDIENCE] },
      { authenticated: true, audiences: [AUDIENCE], user: { username: '' } },
    ])
      assert.equal(await reviewing(() => status).authenticate('abc'), null, JSON.stringify(status));
  });

  it("uses the API server's own audience if none is configured", async () => {
    const { authenticate, asked } = reviewing(({ token }) => ({ ...good({ token }), audiences: ['api'] }), {
      audiences: [],
    });
    assert.notEqual(await authenticate('abc'), null);
    assert.deepEqual(asked, [{ token: 'abc' }]);
  });

  it('reviews each token once a minute, and once for concurrent requests', async () => {
    const { authenticate, asked, pass } = reviewing(good);
    await Promise.all([authenticate('abc'), authenticate('abc'), authenticate('abcd')]);
    pass(59_000);
    await authenticate('abc');
    assert.equal(asked.length, 2);
    pass(2000);
    await authenticate('abc');
    assert.equal(asked.length, 3);
  });

  it('reviews a rejected token again soon', async () => {
    let isKnown = false;
    const { authenticate, pass } = reviewing((spec) => (isKnown ? good(spec) : {}));
    assert.equal(await authenticate('abc'), null);
    isKnown = true;
    assert.equal(await authenticate('abc'), null);
    pass(3000);
    assert.notEqual(await authenticate('abc'), null);
  });

  it('reviews again after a minute when the wall clock is stepped back or forward a day', async () => {
    for (const day of [-86_400_000, 86_400_000]) {
      let isRevoked = false;
      const { authenticate, asked, pass, step } = reviewing((spec) => (isRevoked ? {} : good(spec)));
      assert.notEqual(await authenticate('abc'), null);
      isRevoked = true;
      step(day);
      assert.notEqual(await authenticate('abc'), null);
      assert.equal(asked.length, 1, 'a step alone asks nothing');
      pass(61_000);
      assert.equal(await authenticate('abc'), null);
    }
  });

  it('rejects a token after its expiry time, even within the cache time', async () => {
    const { authenticate, pass, now } = reviewing(good);
    const token = jwt({ exp: (now() + 30_000) / 1000 });
    assert.equal((await authenticate(token))?.expires, now() + 30_000);
    pass(30_000);
    assert.equal(await authenticate(token), null);
  });

  it('reviews no token that says itself that it has expired or is for others', async () => {
    const { authenticate, asked, now } = reviewing(good);
    for (const claims of [{ exp: now() / 1000 }, { aud: 'others' }, { aud: ['others', 7] }, { aud: [] }])
      assert.equal(await authenticate(jwt(claims)), null, JSON.stringify(claims));
    assert.deepEqual(asked, []);
    for (const claims of [
      {},
      { aud: AUDIENCE },
      { aud: ['others', AUDIENCE] },
      null,
      'text',
      { exp: 'soon' },
    ])
      assert.notEqual(await authenticate(jwt(claims as object)), null, JSON.stringify(claims));
  });

  it('reviews the token of one address at its turn, whatever another address sends', async () => {
    const order: string[] = [];
    const { authenticate } = reviewing(good, {
      queue: new FairQueue({ atOnce: 1, most: 100 }),
      async review(spec) {
        order.push(spec.token);
        await new Promise(setImmediate);
        return good(spec);
      },
    });
    const flood = Array.from({ length: 1000 }, (_, index) => authenticate(`flood-${index}`, '10.0.0.2'));
    const one = authenticate('agent', '10.0.0.3');
    const results = await Promise.allSettled(flood);
    assert.notEqual(await one, null);
    assert.equal(order.indexOf('agent'), 2);
    const refused = results.filter(({ status }) => status === 'rejected');
    assert.equal(refused.length, 1000 - 1 - 99);
    assert.match(
      String(refused.map((result) => 'reason' in result && result.reason)[0]),
      /100 requests wait/,
    );
  });

  it('fails while the API server does not answer, and reviews again', async () => {
    let isDown = true;
    const { authenticate } = reviewing((spec) => {
      if (isDown) throw new Error('down');
      return good(spec);
    });
    await assert.rejects(authenticate('abc'), /down/);
    isDown = false;
    assert.notEqual(await authenticate('abc'), null);
  });

  it('limits concurrent reviews, and completes all', async () => {
    let running = 0;
    let most = 0;
    const { authenticate } = reviewing(good, {
      queue: new FairQueue({ atOnce: 3, most: 1000 }),
      async review(spec) {
        most = Math.max(most, ++running);
        await new Promise(setImmediate);
        running--;
        if (spec.token.endsWith('5')) throw new Error('down');
        return good(spec);
      },
    });
    const all = await Promise.allSettled(Array.from({ length: 20 }, (_, i) => authenticate(`token-${i}`)));
    assert.equal(most, 3);
    assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 18);
  });
});

describe('frontProxyAuthenticator', () => {
  const proxy: FrontProxy = {
    allowedNames: ['front-proxy-client'],
    usernameHeaders: ['X-Remote-User'],
    uidHeaders: [],
    groupHeaders: ['X-Remote-Group'],
    extraHeaderPrefixes: ['X-Remote-Extra-'],
  };
  const headers = {
    'x-remote-user': ['alice'],
    // The user's own header, passed on by an API server that has none for the uid.
    'x-remote-uid': ['forged'],
    'x-remote-group': ['a, b', 'c'],
    'x-remote-extra-authentication.kubernetes.io%2fnode-name': ['cp-1'],
    'x-remote-extra-100%': ['x'],
  };
  const ask = (
    authorized: boolean,
    name: unknown,
    config: FrontProxy | null = proxy,
    given: object = headers,
  ) =>
    frontProxyAuthenticator(() => config)({
      headersDistinct: given,
      socket: { authorized, getPeerCertificate: () => ({ subject: { CN: name } }) },
    } as unknown as IncomingMessage);

  it("reads the user from the front proxy's headers", async () => {
    const identity = await ask(true, 'front-proxy-client');
    assert.ok(identity !== null);
    assert.deepEqual(
      { ...identity, extra: { ...identity.extra } },
      {
        username: 'alice',
        uid: '',
        groups: ['a, b', 'c'],
        extra: { 'authentication.kubernetes.io/node-name': ['cp-1'], '100%': ['x'] },
        expires: null,
      },
    );
  });

  it('reads the uid from the configured header', async () => {
    const identity = await ask(true, 'front-proxy-client', { ...proxy, uidHeaders: ['X-Remote-Uid'] });
    assert.equal(identity?.uid, 'forged');
  });

  it('trusts no other client', async () => {
    assert.equal(await ask(false, 'front-proxy-client'), null);
    assert.equal(await ask(false, 'x', { ...proxy, allowedNames: [] }), null);
    assert.equal(await ask(true, 'somebody'), null);
    assert.equal(await ask(true, undefined), null);
    assert.equal(await ask(true, 'front-proxy-client', null), null);
    assert.equal(await ask(true, 'front-proxy-client', proxy, {}), null);
    assert.notEqual(await ask(true, 'anybody of this CA', { ...proxy, allowedNames: [] }), null);
  });
});

describe('firstOf', () => {
  it('returns the first result that is a user', async () => {
    const { authenticate } = reviewing(good);
    const nobody = async () => null;
    const both = firstOf(nobody, () => authenticate('abc'), nobody);
    assert.equal((await both(bearing(null)))?.username, 'user of 3');
    assert.equal(await firstOf(nobody)(bearing(null)), null);
  });
});

describe('accessAuthoriser', () => {
  it('sends all fields of the user, and caches the answer for ten seconds', async () => {
    let now = 1_000_000;
    const asked: AccessReviewSpec[] = [];
    const authorise = accessAuthoriser(
      async (spec) => {
        asked.push(spec);
        return { allowed: true, denied: spec.user === 'denied', reason: 'because' };
      },
      () => now,
      new FairQueue(LONG_QUEUE),
    );
    const access: Access = { verb: 'list', group: 'g', version: 'v', resource: 'nodeviews' };
    const alice = { username: 'alice', uid: 'u', groups: ['g'], extra: { k: ['v'] }, expires: null };
    assert.deepEqual(await authorise(alice, access), { allowed: true, reason: 'because' });
    assert.deepEqual(asked, [
      { user: 'alice', uid: 'u', groups: ['g'], extra: { k: ['v'] }, resourceAttributes: access },
    ]);
    await authorise(alice, access);
    await authorise(alice, { ...access, verb: 'get' });
    assert.equal(asked.length, 2);
    now += 11_000;
    await authorise(alice, access);
    assert.equal(asked.length, 3);
    assert.equal((await authorise({ ...alice, username: 'denied' }, access)).allowed, false);
  });
});
