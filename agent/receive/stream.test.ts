import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import type { NodeState } from '../../apis/compiled.ts';
import type { ProbeUpdate } from '../../apis/stream.ts';
import { createAuthority } from '../../test/cluster/certificates.ts';
import { type FakeControlPlane, fakeControlPlane } from '../../test/fake/control-plane.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { closing, fromPods, ingress, nodeState, pod } from '../../test/fake/node-state.ts';
import { plainState } from '../../test/fake/view-updates.ts';
import { tcp } from '../../test/kernel/manifests.ts';
import { controllerClient } from './controller-client.ts';
import { type Folded, fold } from './fold.ts';
import { ControllerStream } from './stream.ts';

const NODE = 'node-0';
const WEB = ingress('web', { name: 'in', action: 'Allow', from: [fromPods('web')], ports: [tcp(443)] });
const STATES: readonly NodeState[] = [1, 2, 3, 4, 5, 6].map((i) =>
  nodeState(
    WEB,
    closing('ports', ...Array.from({ length: i }, (_, n) => 100 + n)),
    pod('web', `10.1.0.${i}`),
  ),
);
const [FIRST, SECOND, THIRD] = STATES as [NodeState, NodeState, NodeState];

/** Records the events of a stream, and lets tests wait for more. */
function listener() {
  const waiting = new Set<() => void>();
  const told = {
    connects: 0,
    folded: null as Folded | null,
    errors: [] as Error[],
    /** The errors among them that are about a whole view. */
    unfollowable: [] as Error[],
    waits: [] as number[],
    /** Ids of probes for other nodes. */
    probes: [] as string[],
  };
  const look = (): void => {
    for (const check of waiting) check();
  };
  return {
    told,
    events: {
      connected: () => {
        told.connects++;
        look();
      },
      folded: (folded: Folded) => {
        told.folded = folded;
        look();
      },
      question: () => {},
      probe: ({ id }: ProbeUpdate) => {
        told.probes.push(id);
        look();
      },
      disconnected: (error: Error, retryIn: number) => {
        told.errors.push(error);
        told.waits.push(retryIn);
        look();
      },
      unfollowable: (error: Error, retryIn: number) => {
        told.unfollowable.push(error);
        told.errors.push(error);
        told.waits.push(retryIn);
        look();
      },
    },
    until(condition: () => boolean): Promise<void> {
      return new Promise((resolve) => {
        const check = (): void => {
          if (!condition()) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      });
    },
  };
}

describe('a stream', function () {
  this.timeout(20_000);
  let plane: FakeControlPlane;
  let clock: FakeClock;
  let heard: ReturnType<typeof listener>;
  let stream: ControllerStream;
  let client: ReturnType<typeof controllerClient>;

  function follow(): void {
    client = controllerClient(plane, 'test', clock, () => 1);
    stream = new ControllerStream({
      node: NODE,
      client,
      fold: fold(NODE),
      events: heard.events,
      clock,
      random: () => 1,
    });
  }
  beforeEach(async () => {
    plane = await fakeControlPlane(NODE);
    clock = fakeClock();
    heard = listener();
  });
  afterEach(async () => {
    await stream.close();
    client.close();
    await plane.close();
  });

  const holds = (state: NodeState) => () =>
    heard.told.folded !== null &&
    JSON.stringify(plainState(heard.told.folded.state)) === JSON.stringify(plainState(state));
  const failures = (count: number) => heard.until(() => heard.told.errors.length >= count);
  const lastError = (): string => heard.told.errors.at(-1)?.message ?? '';

  it('receives the view, and its changes', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    for (const state of STATES.slice(1)) plane.publish(state);
    await heard.until(holds(STATES.at(-1) as NodeState));
    assert.deepEqual(plane.watches, [{ resourceVersion: null, token: 'token-1', held: null }]);
    assert.deepEqual(heard.told.errors, []);
  });

  it('waits for a controller that has no view yet', async () => {
    follow();
    await plane.until(() => plane.open() === 1);
    plane.publish(FIRST);
    await heard.until(holds(FIRST));
  });

  for (const how of ['end', 'destroy'] as const) {
    it(`resumes at its revision after ${how}`, async () => {
      plane.publish(FIRST);
      follow();
      await heard.until(holds(FIRST));
      const revision = heard.told.folded?.revision;
      plane.cut(how);
      plane.publish(SECOND);
      await failures(1);
      assert.match(
        lastError(),
        how === 'end' ? /closed the connection/ : /connection to the controller was reset/,
      );
      clock.pass(500);
      await heard.until(holds(SECOND));
      assert.equal(plane.watches[1]?.resourceVersion, revision);
    });
  }

  it('sends the view that it holds when it comes back, unless the controller is too old for that', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    plane.cut('end');
    await failures(1);
    clock.pass(500);
    await plane.until(() => plane.watches.length === 2);
    assert.deepEqual(plane.watches[1]?.held, ['addressSets', 'serviceSets', 'rules']);
    await heard.until(() => heard.told.connects === 2);
    plane.cut('end');
    await failures(2);
    plane.refuse(({ method }) => (method === 'POST' ? { status: 405, message: 'use GET' } : null));
    plane.publish(SECOND);
    clock.pass(500);
    await heard.until(holds(SECOND));
    assert.equal(plane.watches[2]?.held, null);
    assert.equal(heard.told.errors.length, 2);
  });

  it('backs off up to half a minute, and starts over after a bookmark', async () => {
    await plane.stop();
    follow();
    for (let i = 1; i <= 9; i++) {
      await failures(i);
      clock.pass(heard.told.waits.at(-1) ?? 0);
    }
    await failures(10);
    assert.deepEqual(heard.told.waits, [500, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000, 10_000]);
    assert.match(lastError(), /ECONNREFUSED/);
    await plane.start();
    plane.publish(FIRST);
    clock.pass(30_000);
    await heard.until(holds(FIRST));
    plane.cut('end');
    await failures(11);
    assert.equal(heard.told.waits.at(-1), 500);
  });

  const elsewhere = { status: 421, message: 'this replica does not lead' };

  it('soon tries another connection if a replica does not lead', async () => {
    plane.publish(FIRST);
    let asked = 0;
    plane.refuse(() => (++asked <= 4 ? elsewhere : null));
    follow();
    for (const [tries, wait] of [0, 100, 200, 400].entries()) {
      await plane.until(() => asked === tries + 1);
      // Waits until the answer was read and the next wait began.
      while (!clock.waiting().includes(wait)) await new Promise(setImmediate);
      clock.pass(wait);
    }
    await heard.until(holds(FIRST));
    assert.deepEqual([asked, heard.told.errors], [5, []]);
  });

  it('waits as after any failure if no leading replica is found', async () => {
    let asked = 0;
    plane.refuse(() => {
      asked++;
      return elsewhere;
    });
    follow();
    for (const wait of [0, 100, 200, 400, 800]) {
      while (!clock.waiting().includes(wait)) await new Promise(setImmediate);
      clock.pass(wait);
    }
    await failures(1);
    assert.deepEqual([asked, heard.told.waits], [6, [500]]);
    assert.match(lastError(), /421: this replica does not lead/);
  });

  it('does not reset the back-off for a connection without a bookmark', async () => {
    follow();
    for (let i = 1; i <= 4; i++) {
      await plane.until(() => plane.open() === 1 && plane.watches.length === i);
      plane.cut('end');
      await failures(i);
      clock.pass(heard.told.waits.at(-1) ?? 0);
    }
    assert.deepEqual(heard.told.waits, [500, 1000, 2000, 4000]);
  });

  it('treats silence as a disconnect, and bookmarks as a sign of life', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    for (let i = 0; i < 4; i++) {
      clock.pass(60_000);
      const last = heard.told.folded?.revision;
      plane.bookmark();
      await heard.until(() => heard.told.folded?.revision !== last);
    }
    assert.deepEqual(heard.told.errors, []);
    clock.pass(95_000);
    await failures(1);
    assert.match(lastError(), /the controller sent nothing for 95 s/);
  });

  it('treats bytes without a line end as silence', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    clock.pass(60_000);
    plane.write('{"sequence":');
    clock.pass(35_000);
    await failures(1);
    assert.match(lastError(), /the controller sent nothing/);
  });

  it('ends a connection on which the controller sends nothing', async () => {
    plane.refuse(() => 'hang');
    follow();
    await plane.until(() => plane.hanging() === 1);
    clock.pass(15_000);
    await failures(1);
    assert.match(lastError(), /no answer within 15 s/);
    plane.refuse(null);
    clock.pass(500);
    plane.publish(FIRST);
    await heard.until(holds(FIRST));
  });

  it('retries at once when asked to: during an attempt and while waiting, not while connected', async () => {
    plane.refuse(() => 'hang');
    follow();
    await plane.until(() => plane.hanging() === 1);
    plane.refuse(() => ({ status: 503, message: 'not yet' }));
    stream.retryNow();
    await failures(1);
    assert.match(lastError(), /not yet/);
    plane.refuse(null);
    plane.publish(FIRST);
    stream.retryNow();
    await heard.until(holds(FIRST));
    stream.retryNow();
    plane.publish(SECOND);
    await heard.until(holds(SECOND));
    assert.equal(heard.told.connects, 1);
    assert.equal(heard.told.errors.length, 1);
  });

  it('requests a full view after the controller restarted', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    const before = heard.told.folded;
    plane.restart();
    await failures(1);
    clock.pass(500);
    await heard.until(() => heard.told.folded !== before);
    assert.equal(heard.told.folded?.state, before?.state, 'and nothing has changed');
    assert.equal(plane.watches[1]?.resourceVersion, before?.revision);
  });

  it('requests a full view if messages do not match the state', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    plane.fault((line) => line.replace('"rules":2', '"rules":7'));
    plane.publish({ ...SECOND });
    plane.bookmark();
    await failures(1);
    assert.match(lastError(), /the controller says 7/);
    plane.fault(null);
    clock.pass(500);
    await heard.until(holds(SECOND));
    assert.equal(plane.watches[1]?.resourceVersion, null);
  });

  it('distinguishes a view that cannot be applied from a controller that does not answer', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    plane.fault((line) => line.replace(/"rules":\d+,/, '"rules":77,'));
    plane.publish(SECOND);
    await failures(1);
    assert.equal(heard.told.unfollowable.length, 0, 'a whole view may mend it');
    for (const count of [1, 2]) {
      clock.pass(30_000);
      await heard.until(() => heard.told.unfollowable.length === count);
      assert.match(
        heard.told.unfollowable.at(-1)?.message ?? '',
        /cannot apply the controller's view: the agent has \d rules/,
      );
    }
    plane.cut('destroy');
    plane.refuse(() => ({ status: 503, message: 'not yet' }));
    clock.pass(30_000);
    await failures(4);
    plane.refuse(null);
    plane.fault((line) => line.replace('"sequence":2,', '"sequence":3,'));
    clock.pass(30_000);
    await failures(5);
    assert.equal(heard.told.unfollowable.length, 2, 'what was lost once is asked for again');
    clock.pass(30_000);
    await heard.until(() => heard.told.unfollowable.length === 3);
    plane.fault(null);
    clock.pass(30_000);
    await heard.until(holds(SECOND));
  });

  it('requests a full view if resuming from the bookmark loses messages again', async () => {
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    plane.fault((line) => line.repeat(2));
    plane.bookmark();
    // The repeated line arrives after the bookmark was read.
    await failures(1);
    plane.publish(SECOND);
    for (let i = 2; i <= 3; i++) {
      clock.pass(30_000);
      await failures(i);
    }
    plane.fault(null);
    clock.pass(30_000);
    await heard.until(holds(SECOND));
    assert.ok(plane.watches.some(({ resourceVersion }, i) => i > 0 && resourceVersion === null));
  });

  it('reaches the same state whatever happens to lines in transit', async () => {
    // The generator of Numerical Recipes: the same faults in each run.
    let seed = 6;
    const random = (): number => {
      seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
      return seed / 2 ** 32;
    };
    const faults: readonly ((line: string) => string | null)[] = [
      () => null,
      () => '',
      (line) => line.repeat(2),
      (line) => line.slice(0, line.length / 2),
      (line) => line.replace(/\d/, 'x'),
      (line) => `${line.slice(0, 5)}\n${line.slice(5)}`,
      () => '\0\xff\n',
    ];
    plane.publish(FIRST);
    follow();
    await heard.until(holds(FIRST));
    plane.fault((line) => {
      const pick = faults[Math.floor(random() * faults.length)];
      return random() < 0.15 && pick !== undefined ? pick(line) : line;
    });
    let answered = 0;
    /**
     * Waits for the next bookmark, or for an error and the next attempt; a line without its end is
     * noticed at the next line.
     */
    const go = async (isDone: () => boolean): Promise<void> => {
      while (!isDone()) {
        if (heard.told.errors.length > answered) {
          answered = heard.told.errors.length;
          clock.pass(30_000);
        }
        plane.bookmark();
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    };
    for (let round = 0; round < 60; round++) {
      const errors = heard.told.errors.length;
      const last = heard.told.folded;
      plane.publish(STATES[Math.floor(random() * STATES.length)] as NodeState);
      await go(() => heard.told.folded !== last || heard.told.errors.length > errors);
    }
    plane.fault(null);
    plane.publish(THIRD);
    await go(holds(THIRD));
    assert.ok(heard.told.errors.length > 3, `${heard.told.errors.length} errors`);
  });

  it('gives advice about a token of another node', async () => {
    plane.refuse(() => ({ status: 403, message: 'node-1 may not see node-0' }));
    follow();
    await failures(1);
    assert.match(
      lastError(),
      /refused \(403: node-1 may not see node-0\); an agent may read the view of its own node only: the token in/,
    );
  });

  it('reads a new token when the controller rejects the old one', async () => {
    plane.refuse(({ headers }) =>
      headers.authorization === 'Bearer token-2' ? null : { status: 401, message: 'expired' },
    );
    plane.publish(FIRST);
    follow();
    await failures(1);
    assert.match(lastError(), /401: expired.*ServiceAccount/);
    assert.deepEqual(heard.told.waits, [500], 'no other token is there');
    await plane.writeToken('token-2\n');
    clock.pass(500);
    await heard.until(holds(FIRST));
    assert.equal(plane.watches[0]?.token, 'token-2');
  });

  it('retries at once if the token was replaced meanwhile', async () => {
    plane.refuse(({ headers }) => {
      if (headers.authorization === 'Bearer token-2') return null;
      // Replaces the token between the request and its answer, as kubelet may do.
      writeFileSync(plane.tokenFile, 'token-2');
      return { status: 401, message: 'expired' };
    });
    plane.publish(FIRST);
    follow();
    await failures(1);
    assert.deepEqual(heard.told.waits, [0]);
    clock.pass(0);
    await heard.until(holds(FIRST));
  });

  it('waits as long as the controller requests', async () => {
    plane.refuse(() => ({ status: 503, message: 'not the leader', headers: { 'retry-after': '5' } }));
    follow();
    await failures(1);
    assert.match(lastError(), /503: not the leader/);
    assert.deepEqual(heard.told.waits, [7500]);
  });

  it('reports a server that is not a controller', async () => {
    plane.refuse(() => ({ status: 404, message: 'page not found' }));
    follow();
    await failures(1);
    assert.match(
      lastError(),
      /404: page not found\); check that the Node exists and that 127\.0\.0\.1:\d+ is a nodewall controller/,
    );
  });

  describe('a stream to a controller whose certificate', () => {
    it('is of another authority names the file to check, and reads it again', async () => {
      const other = await createAuthority('another');
      await plane.certify(other);
      plane.publish(FIRST);
      follow();
      await failures(1);
      assert.match(
        lastError(),
        /not signed by an authority in .*ca\.crt; check that the authorities are up to date/,
      );
      assert.deepEqual(plane.watches, [], 'it never saw the token');
      await plane.trust(plane.authority, other);
      clock.pass(500);
      await heard.until(holds(FIRST));
    });

    it('is for another name reports that', async () => {
      await plane.certify(plane.authority, ['nodewall-controller.nodewall-system.svc']);
      follow();
      await failures(1);
      assert.match(lastError(), /its certificate is for another name: .* set --controller to a name/);
    });
  });

  it('names the file that is missing or has other content', async () => {
    await plane.trust();
    follow();
    await failures(1);
    assert.match(lastError(), /--ca-file: .* contains no certificate/);
    await plane.trust(plane.authority);
    await plane.writeToken('two words');
    clock.pass(500);
    await failures(2);
    assert.match(lastError(), /--token-file: .* contains no token/);
  });
});
