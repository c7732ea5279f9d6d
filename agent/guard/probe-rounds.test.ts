import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { DEFAULT_CONFIG } from '../../apis/config.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { closing, nodeState } from '../../test/fake/node-state.ts';
import type { ProbeResult } from './guard-state.ts';
import { ProbeRounds, type ProbeRoundsOptions, RoundBefore } from './probe-rounds.ts';
import type { Probe } from './probes.ts';

const address = '127.0.0.1';
const SSH: Probe = {
  kind: 'inward',
  name: 'ssh',
  flow: { direction: 'ingress', src: '192.0.2.9', dst: '192.0.2.1', protocol: 'tcp', dstPort: 22 },
};

interface Done {
  readonly began: number;
  readonly results: readonly ProbeResult[];
}

describe('rounds of probes', () => {
  let server: Server;
  let port: number;
  let clock: FakeClock;
  let probes: readonly Probe[];
  let done: Done[];
  /** Resolves after the next `done`. */
  let next: PromiseWithResolvers<void>;
  let verified: number;

  before(async () => {
    server = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, address);
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  });
  after(() => server.close());
  beforeEach(() => {
    clock = fakeClock();
    probes = [outward('open', port)];
    [done, next, verified] = [[], Promise.withResolvers(), 0];
  });

  function outward(name: string, to: number): Probe {
    return { kind: 'outward', name, attempts: [{ kind: 'tcp', address, port: to }] };
  }

  function create(parts: Partial<ProbeRoundsOptions> = {}): ProbeRounds {
    return new ProbeRounds({
      config: DEFAULT_CONFIG,
      clock,
      probes: () => probes,
      inward: null,
      verify: async () => void verified++,
      isInTime: async () => true,
      isTrial: () => true,
      inForce: () => nodeState(closing('a', 22)),
      confirmed: () => null,
      done: (began, results) => {
        done.push({ began, results });
        next.resolve();
      },
      ...parts,
    });
  }

  async function results(rounds: ProbeRounds, ...names: readonly string[]): Promise<readonly ProbeResult[]> {
    rounds.arm(names, 500);
    clock.pass(500);
    await next.promise;
    assert.equal(done.length, 1);
    return done[0]?.results ?? [];
  }

  it('have the error of each probe that fails, and are made when they are due', async () => {
    probes = [outward('open', port), outward('closed', 1), outward('other', 1)];
    const rounds = create();
    rounds.arm(['open', 'closed'], 500);
    clock.pass(499);
    assert.deepEqual(clock.waiting(), [1]);
    clock.pass(1);
    await next.promise;
    const [{ began, results: found } = assert.fail()] = done;
    assert.equal(began, 500);
    const [open, closed, ...others] = found;
    assert.deepEqual([open, others], [{ probe: 'open', error: null, fault: null }, []]);
    assert.match(closed?.error ?? '', /ECONNREFUSED/);
    assert.equal(closed?.fault, null, 'no rule denies it');
    assert.equal(verified, 0, 'nothing is confirmed by this round');
  });

  it('name the rule that denies a flow, by the state in force', async () => {
    probes = [SSH];
    const rounds = create({ inward: { round: async () => new Map([['ssh', 'no answer']]) } });
    const [{ error, fault } = assert.fail()] = await results(rounds, 'ssh');
    assert.equal(error, 'no answer');
    assert.deepEqual([fault?.policy, fault?.rule], ['a', 'close']);
  });

  it('name no rule where a confirmed one denies the flow too: the change is not at fault', async () => {
    probes = [SSH];
    const inward = { round: async () => new Map([['ssh', 'no answer']]) };
    const confirmed = () => nodeState(closing('b', 22));
    const found = await results(create({ inward, confirmed }), 'ssh');
    assert.deepEqual(found, [{ probe: 'ssh', error: 'no answer', fault: null }]);
  });

  it('leave out what nobody could make, and count what is no longer known as passed', async () => {
    probes = [SSH];
    const asked: [readonly string[], boolean][] = [];
    const round = async (names: readonly string[], isTrial: boolean) => {
      asked.push([names, isTrial]);
      return new Map();
    };
    const found = await results(create({ inward: { round } }), 'ssh', 'gone');
    assert.deepEqual(found, [{ probe: 'gone', error: null, fault: null }]);
    assert.deepEqual(asked, [[['ssh', 'gone'], true]]);
  });

  it('compare the kernel with the rules before all have passed', async () => {
    let isDone = false;
    const verify = async (): Promise<void> => {
      await new Promise(setImmediate);
      isDone = done.length > 0;
      verified++;
    };
    await results(create({ verify }), 'open');
    assert.deepEqual([verified, isDone], [1, false]);
  });

  it('are dropped if the kernel had other rules, by which another round is due', async () => {
    const rounds: ProbeRounds = create({
      async verify() {
        if (verified++ === 0) {
          rounds.arm(['open'], 100);
          setImmediate(() => clock.pass(100));
        }
      },
    });
    await results(rounds, 'open');
    assert.deepEqual([done[0]?.began, verified], [600, 2]);
  });

  it('of a trial say nothing where packets may have been accepted past its deadline; they are made again', async () => {
    const answers = [false, true];
    const rounds = create({ isInTime: async () => answers.shift() ?? assert.fail('asked too often') });
    rounds.arm(['open'], 0);
    clock.pass(0);
    while (answers.length === 2) await new Promise(setImmediate);
    await new Promise(setImmediate);
    assert.equal(done.length, 0);
    clock.pass(1_000);
    await next.promise;
    assert.deepEqual([done[0]?.began, answers], [1_000, []]);
  });

  it('of a trial are checked for that also where a probe fails: others pass', async () => {
    probes = [outward('open', port), outward('shut', 1)];
    let asked = 0;
    const rounds = create({ isInTime: async () => ++asked > 0 });
    await results(rounds, 'open', 'shut');
    assert.deepEqual([asked, verified], [1, 0]);
  });

  it('of a trial have what failed where the rest proves nothing', async () => {
    probes = [outward('open', port), outward('shut', 1)];
    const rounds = create({ isInTime: async () => false });
    const failed = await results(rounds, 'open', 'shut');
    assert.deepEqual(
      failed.map(({ probe }) => probe),
      ['shut'],
    );
  });

  it('are replaced, also in progress, and none is made after cancel', async () => {
    const first = Promise.withResolvers<ReadonlyMap<string, string | null>>();
    const answers = [first.promise, Promise.resolve(new Map([['ssh', 'second']]))];
    probes = [SSH];
    const round = () => answers.shift() ?? assert.fail('not asked for');
    const rounds = create({ inward: { round } });
    rounds.arm(['ssh'], 0);
    clock.pass(0);
    rounds.arm(['ssh'], 10);
    clock.pass(10);
    await next.promise;
    first.resolve(new Map([['ssh', 'first']]));
    await new Promise(setImmediate);
    assert.deepEqual(
      done.map(({ results: [one] }) => one?.error),
      ['second'],
    );
    rounds.arm(['ssh'], 10);
    rounds.arm([], 0);
    assert.deepEqual(clock.waiting(), []);
    rounds.arm(['ssh'], 10);
    rounds.cancel();
    assert.deepEqual(clock.waiting(), []);
  });
});

describe('the round before a change', () => {
  let server: Server;
  let clock: FakeClock;
  let probes: readonly Probe[];
  let rounds: number;
  let round: RoundBefore;

  beforeEach(async () => {
    server = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, address);
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    probes = [
      { kind: 'outward', name: 'open', attempts: [{ kind: 'tcp', address, port }] },
      { kind: 'outward', name: 'closed', attempts: [{ kind: 'tcp', address, port: 1 }] },
      { kind: 'inward', name: 'ssh', flow: null },
    ];
    clock = fakeClock();
    rounds = 0;
    round = new RoundBefore({
      clock,
      probes() {
        rounds++;
        return probes;
      },
    });
  });
  afterEach(() => server.close());

  /** The names of those that passed. */
  async function passed(number: number): Promise<string[]> {
    return [...(await round.results(number))].filter(([, error]) => error === null).map(([name]) => name);
  }

  it('has the outward probes that pass, until its state is judged', async () => {
    assert.deepEqual(await passed(0), []);
    const first = round.make();
    assert.deepEqual(await passed(first), ['open']);
    round.forget(first);
    assert.deepEqual(await passed(first), []);
  });

  it('is made once for a burst of states, and again for a later one', async () => {
    round.make();
    clock.pass(899);
    const second = round.make();
    assert.equal(rounds, 1);
    clock.pass(1);
    const third = round.make();
    assert.equal(rounds, 2);
    assert.deepEqual(await passed(second), ['open']);
    assert.deepEqual(await passed(third), ['open']);
  });

  it('stays for a state that is submitted before an earlier one is judged', async () => {
    const first = round.make();
    clock.pass(100);
    const second = round.make();
    clock.pass(900);
    const third = round.make();
    round.forget(first);
    assert.deepEqual(await passed(second), ['open']);
    round.forget(second);
    assert.deepEqual(await passed(third), ['open']);
    assert.equal(rounds, 2);
  });

  it('is not made before a state that is not tried, and forgotten with it', async () => {
    const first = round.make();
    const second = round.skip();
    assert.equal(rounds, 1);
    round.forget(second);
    assert.deepEqual(await passed(first), []);
  });

  it('is made again after the confirmed state: the rules in force are others then', () => {
    round.make();
    round.skip();
    round.make();
    assert.equal(rounds, 2);
  });

  it('says which probes failed, and which were not made', async () => {
    const first = round.make();
    const results = await round.results(first);
    assert.deepEqual([...results.keys()], ['open', 'closed']);
    assert.match(results.get('closed') ?? '', /ECONNREFUSED/);
    assert.deepEqual([...(await round.results(first))].length, 2);
    round.forget(first);
    assert.equal((await round.results(first)).size, 0);
  });

  it('has what passed before any of the states: a probe that the first one denies counts', async () => {
    const first = round.make();
    await passed(first);
    server.close();
    clock.pass(900);
    const second = round.make();
    assert.deepEqual(await passed(second), ['open']);
  });
});
