import assert from 'node:assert/strict';
import type { WallClock } from '../../../lib/process/clock.ts';
import { fakeClock } from '../../../test/fake/fake-clock.ts';
import { isSecretPath, WEBHOOK_STEPS, WebhookPaths } from './webhook-configurations.ts';

const HOUR = 3_600_000;
const GRACE = 600_000;
const START = 500_000 * HOUR;

describe('WebhookPaths', () => {
  let time: ReturnType<typeof fakeClock>;
  let clock: WallClock;
  beforeEach(() => {
    time = fakeClock();
    clock = { ...time, date: () => new Date(START + time.now()) };
  });

  /** Paths of a controller whose clock is ahead by this. */
  function pathsOf(key: string, ahead = 0): WebhookPaths {
    const paths = new WebhookPaths({ ...clock, date: () => new Date(clock.date().getTime() + ahead) });
    paths.setKey(key);
    return paths;
  }

  const written = (paths: WebhookPaths, step: (typeof WEBHOOK_STEPS)[number] = 'validate'): string =>
    paths.replacement(step, '', false) ?? assert.fail('nothing to write');

  it('are 256 bits for each step, the same for all who have the key', () => {
    const all = WEBHOOK_STEPS.map((step) => written(pathsOf('KEY'), step));
    for (const [index, step] of WEBHOOK_STEPS.entries())
      assert.match(all[index] ?? '', new RegExp(`^/${step}/500000-[0-9a-f]{64}$`));
    assert.equal(new Set(all.map((path) => path.split('-')[1])).size, WEBHOOK_STEPS.length);
    assert.deepEqual(
      all,
      WEBHOOK_STEPS.map((step) => written(pathsOf('KEY\n'), step)),
    );
    assert.notEqual(written(pathsOf('OTHER')), all[1]);
  });

  it('count before they are written, for their step alone', () => {
    const paths = pathsOf('KEY');
    for (const step of WEBHOOK_STEPS) assert.equal(paths.stepOf(written(paths, step)), step);
    const path = written(paths);
    for (const other of [
      ...['', '/', '/validate', '/validate/', `${path}/`, path.slice(0, -1), `${path.slice(0, -1)}x`],
      ...[path.toUpperCase(), path.replace('validate', 'use'), written(pathsOf('OTHER'))],
    ])
      assert.equal(paths.stepOf(other), null, other);
  });

  it('nobody is answered before a key is known', () => {
    const paths = new WebhookPaths(clock);
    assert.equal(paths.stepOf('/validate'), null);
    assert.equal(paths.replacement('validate', '', false), null);
  });

  it('are replaced after an hour; the former one counts until no API server has it', () => {
    const paths = pathsOf('KEY');
    const first = written(paths);
    paths.follow('v', [first]);
    assert.equal(paths.replacement('validate', first, false), null);
    time.pass(HOUR);
    const second = paths.replacement('validate', first, false);
    assert.ok(second !== null && second !== first);
    assert.equal(paths.stepOf(first), 'validate');
    paths.follow('v', [second]);
    time.pass(GRACE - 1);
    assert.equal(paths.stepOf(first), 'validate');
    time.pass(1);
    assert.equal(paths.stepOf(first), null);
    assert.equal(paths.stepOf(second), 'validate');
  });

  it('count while a configuration has them, also by the key of another controller', () => {
    const paths = pathsOf('OLD KEY');
    const path = written(pathsOf('NEW KEY'));
    paths.follow('v', [path]);
    assert.equal(paths.stepOf(path), 'validate');
    // Two controllers, one with each key, must not write by turns.
    assert.equal(paths.replacement('validate', path, false), null);
    time.pass(HOUR);
    assert.equal(paths.stepOf(path), 'validate');
    assert.notEqual(paths.replacement('validate', path, false), null);
  });

  it('are not replaced by turns of two controllers whose clocks differ', () => {
    const late = pathsOf('KEY');
    for (const [ahead, period] of [
      [HOUR, 500_001],
      [24 * HOUR, 500_024],
    ] as const) {
      const path = written(pathsOf('KEY', ahead));
      assert.match(path, new RegExp(`/${period}-`));
      if (ahead === HOUR) assert.equal(late.stepOf(path), 'validate');
      late.follow('v', [path]);
      assert.equal(late.stepOf(path), 'validate');
      assert.equal(late.replacement('validate', path, false), null);
    }
    // Its clock was a year ahead for a while.
    const wrong = written(pathsOf('KEY', 365 * 24 * HOUR));
    assert.notEqual(late.replacement('validate', wrong, false), null);
  });

  it('are written in place of anything that is none, of another step, and with a new CA', () => {
    const paths = pathsOf('KEY');
    const path = written(paths);
    const other = written(pathsOf('OTHER'));
    for (const present of ['/validate', '/', path.replace('500000', '499999'), written(paths, 'use')])
      assert.equal(paths.replacement('validate', present, false), path, present);
    assert.equal(paths.replacement('validate', other, true), path);
    assert.equal(paths.replacement('validate', path, true), null);
  });

  it('of a configuration count only if they are as a controller writes them', () => {
    const paths = pathsOf('KEY');
    for (const path of ['/validate', '/validate/500000-short', '/status/500000-'.padEnd(79, 'a')]) {
      paths.follow('v', [path]);
      assert.equal(paths.stepOf(path), null, path);
      assert.equal(isSecretPath(path), false, path);
    }
  });

  it('that configurations had are forgotten beyond a number', () => {
    const paths = pathsOf('KEY');
    const all = Array.from({ length: 100 }, (_, index) => written(pathsOf(`KEY ${index}`)));
    for (const path of all) paths.follow('v', [path]);
    const counting = all.filter((path) => paths.stepOf(path) !== null);
    assert.deepEqual(counting, all.slice(-33));
  });
});
