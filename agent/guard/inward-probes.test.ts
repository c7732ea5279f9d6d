import assert from 'node:assert/strict';
import { setImmediate as turn } from 'node:timers/promises';
import { createLogger } from 'winston';
import type { InwardProbeConfig } from '../../apis/config.ts';
import type { InwardQuestion, InwardResult, Made } from '../../apis/probes.ts';
import { type FakeClock, fakeClock } from '../../test/fake/fake-clock.ts';
import { InwardProbes } from './inward-probes.ts';

const SSH: InwardProbeConfig = { name: 'ssh', from: 'peer', family: null, target: { kind: 'tcp', port: 22 } };
const PING: InwardProbeConfig = { name: 'ping', from: 'peer', family: 6, target: { kind: 'icmp' } };

function made(name: string, more: Partial<Made> = {}): Made {
  return { name, prober: 'b', address: '192.0.2.1', source: '192.0.2.2', error: null, ...more };
}

describe('inward probes', () => {
  let clock: FakeClock;
  let answers: (InwardResult[] | Error)[];
  let questions: InwardQuestion[];
  let probes: InwardProbes;

  beforeEach(() => {
    clock = fakeClock();
    answers = [];
    questions = [];
    probes = new InwardProbes({
      node: 'a',
      probes: () => [SSH],
      milliseconds: 3_000,
      async ask(question) {
        questions.push(question);
        const answer = answers.shift() ?? assert.fail('not asked for');
        if (answer instanceof Error) throw answer;
        return answer;
      },
      clock,
      random: () => 1,
      log: createLogger({ silent: true }),
    });
  });

  /** The confirmed rules are in force. */
  async function settled(...next: (InwardResult[] | Error)[]): Promise<void> {
    answers.push(...next);
    probes.settled();
    clock.pass(0);
    await turn();
  }

  it('count once they passed under the confirmed rules, and are not made again then', async () => {
    assert.deepEqual(probes.passing(), []);
    await settled([made('ssh')]);
    assert.deepEqual(probes.passing(), ['ssh']);
    probes.settled();
    assert.deepEqual([clock.waiting(), questions.length], [[], 1]);
    const [{ flow } = assert.fail()] = probes.all();
    const ends = { src: '192.0.2.2', dst: '192.0.2.1', protocol: 'tcp', dstPort: 22 } as const;
    assert.deepEqual(flow, { direction: 'ingress', ...ends });
  });

  it('do not count while nobody makes them, or they fail; they are made again, more and more seldom', async () => {
    await settled(new Error('away'));
    assert.deepEqual([probes.passing(), clock.waiting()], [[], [5_000]]);
    for (const [answer, wait] of [
      [[{ name: 'ssh', notMade: 'no agent' }], 10_000],
      [[made('ssh', { error: 'no answer' })], 20_000],
    ] as const) {
      answers.push([...answer]);
      clock.pass(clock.waiting()[0] ?? assert.fail());
      await turn();
      assert.deepEqual([probes.passing(), clock.waiting()], [[], [wait]]);
    }
    answers.push([made('ssh')]);
    clock.pass(20_000);
    await turn();
    assert.deepEqual([probes.passing(), clock.waiting()], [['ssh'], []]);
  });

  it('are asked of the same prober again: a failure of another one says nothing', async () => {
    await settled([made('ssh')]);
    answers.push([made('ssh', { prober: 'c', error: 'no answer' })]);
    assert.deepEqual([...(await probes.round(['ssh'], true))], []);
    assert.deepEqual(questions.at(-1), { probes: [{ name: 'ssh', prober: 'b' }], milliseconds: 3_000 });
    answers.push([made('ssh', { error: 'no answer' })]);
    assert.deepEqual([...(await probes.round(['ssh'], true))], [['ssh', 'no answer']]);
    answers.push([{ name: 'ssh', notMade: 'b is away' }]);
    assert.deepEqual([...(await probes.round(['ssh'], true))], []);
  });

  it('keep their result over a rollback, and take that of the trial where it is confirmed', async () => {
    await settled([made('ssh')]);
    answers.push([made('ssh', { error: 'no answer' })]);
    await probes.round(['ssh'], true);
    probes.ended(false);
    assert.deepEqual(probes.passing(), ['ssh']);
    answers.push([made('ssh', { error: 'no answer' })]);
    await probes.round(['ssh'], true);
    probes.ended(true);
    assert.deepEqual(probes.passing(), []);
  });

  it('are not known under rules that were confirmed without them', async () => {
    await settled([made('ssh')]);
    probes.ended(true);
    assert.deepEqual(probes.passing(), []);
    await settled([made('ssh')]);
    assert.deepEqual(probes.passing(), ['ssh']);
  });

  it('are unmade where nothing is known of them under the confirmed rules, and not before these are in force', async () => {
    assert.deepEqual(probes.unmade(), []);
    await settled(new Error('away'));
    assert.deepEqual(probes.unmade(), ['ssh']);
    probes.changing();
    answers.push([made('ssh', { error: 'no answer' })]);
    await probes.round(['ssh'], true);
    assert.deepEqual(probes.unmade(), ['ssh'], 'what a trial shows says nothing of the rules before');
    assert.equal(probes.all()[0]?.flow?.src, '192.0.2.2', 'though the rule at fault is found by it');
    probes.ended(false);
    await settled([made('ssh', { error: 'no answer' })]);
    assert.deepEqual([probes.unmade(), probes.passing()], [[], []], 'it fails');
    probes.ended(true);
    assert.deepEqual(probes.unmade(), [], 'it did not count, so it was not tried');
    await settled([made('ssh')]);
    probes.ended(true);
    assert.deepEqual([probes.unmade(), probes.passing()], [['ssh'], []], 'nobody made it in the trial');
  });

  it('are unmade while their answer is under way, unless they failed before', async () => {
    probes.settled();
    answers.push([made('ssh', { error: 'no answer' })], [made('ssh')]);
    clock.pass(0);
    assert.deepEqual(probes.unmade(), ['ssh']);
    await turn();
    assert.deepEqual(probes.unmade(), []);
    clock.pass(5_000);
    assert.deepEqual([questions.length, probes.unmade()], [2, []]);
    await turn();
    assert.deepEqual(probes.passing(), ['ssh']);
  });

  it('are no longer unmade where the controller says for half a minute that nobody can make them', async () => {
    const nobody = [{ name: 'ssh', notMade: 'no agent' }];
    await settled(nobody);
    for (const wait of [5_000, 10_000]) {
      answers.push(nobody);
      clock.pass(wait);
      await turn();
    }
    assert.deepEqual(probes.unmade(), ['ssh']);
    answers.push(new Error('away'));
    clock.pass(20_000);
    await turn();
    assert.deepEqual(probes.unmade(), ['ssh'], 'the controller says nothing');
    answers.push(nobody, nobody);
    for (const wait of [40_000, 80_000]) {
      clock.pass(wait);
      await turn();
    }
    assert.deepEqual(probes.unmade(), []);
  });

  it('forget a result that comes after the rules have changed', async () => {
    answers.push([made('ssh')]);
    probes.settled();
    clock.pass(0);
    probes.changing();
    await turn();
    assert.deepEqual([probes.passing(), clock.waiting()], [[], []]);
    answers.push([made('ssh', { error: 'no answer' })]);
    const round = probes.round(['ssh'], true);
    probes.ended(true);
    assert.deepEqual([...(await round)], []);
    assert.deepEqual(probes.passing(), []);
  });

  it('are flows of the family that was asked for', () => {
    const one = new InwardProbes({
      node: 'a',
      probes: () => [PING],
      milliseconds: 1,
      clock,
      random: () => 1,
      log: createLogger({ silent: true }),
      ask: async () => [made('ping', { address: '2001:db8::1', source: '2001:db8::2' })],
    });
    assert.equal(one.all()[0]?.flow, null);
    one.settled();
    clock.pass(0);
    return turn().then(() => {
      const flow = one.all()[0]?.flow;
      assert.deepEqual([flow?.protocol, flow?.icmpType, flow?.src], ['icmpv6', 128, '2001:db8::2']);
    });
  });
});
