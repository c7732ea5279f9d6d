import assert from 'node:assert/strict';
import {
  afterEvent,
  afterLook,
  INITIAL_LIFECYCLE,
  type Lifecycle,
  type LifecycleEvent,
  missing,
} from './lifecycle.ts';

const KNOWN = { isListed: true, isGateKnown: true };
const STANDBY: Lifecycle = { ...INITIAL_LIFECYCLE, hasCertificate: true, isServing: true };
const LEADER: Lifecycle = { ...STANDBY, isLeading: true };

const after = (life: Lifecycle, type: Exclude<LifecycleEvent['type'], 'failed'>) =>
  afterEvent(life, { type });

describe('the life of a controller', () => {
  it('serves nothing before objects, gate and certificate are known', () => {
    const certified = after(INITIAL_LIFECYCLE, 'certificate').life;
    const cases = [
      [certified, { isListed: false, isGateKnown: false }, /listed/],
      [certified, { isListed: true, isGateKnown: false }, /gate/],
      [INITIAL_LIFECYCLE, KNOWN, /certificate/],
    ] as const;
    for (const [life, readiness, why] of cases) {
      assert.match(missing(life, readiness) ?? '', why);
      assert.deepEqual(afterLook(life, readiness, true), { life, effects: [] });
    }
    assert.equal(missing(certified, KNOWN), null);
  });

  it('looks at the first certificate, and at all that serving depends on', () => {
    assert.deepEqual(after(INITIAL_LIFECYCLE, 'certificate'), {
      life: { ...INITIAL_LIFECYCLE, hasCertificate: true },
      effects: ['look'],
    });
    assert.deepEqual(after(STANDBY, 'changed'), { life: STANDBY, effects: ['look'] });
    assert.deepEqual(after(STANDBY, 'published'), { life: STANDBY, effects: ['wake', 'look'] });
  });

  it('serves as a standby, and registers then', () => {
    const certified = { ...INITIAL_LIFECYCLE, hasCertificate: true };
    assert.deepEqual(afterLook(certified, KNOWN, false), { life: certified, effects: ['serve'] });
    assert.deepEqual(after(certified, 'serving'), { life: STANDBY, effects: ['useTls', 'register'] });
    assert.deepEqual(afterLook(STANDBY, KNOWN, false), { life: STANDBY, effects: [] });
  });

  it('leads only after what that takes is done', () => {
    assert.deepEqual(afterLook(STANDBY, KNOWN, true), { life: STANDBY, effects: ['lead'] });
    assert.deepEqual(after(STANDBY, 'leading'), { life: LEADER, effects: [] });
    assert.deepEqual(afterLook(LEADER, KNOWN, true), { life: LEADER, effects: [] });
  });

  it('serves first where it is elected before it serves', () => {
    const certified = { ...INITIAL_LIFECYCLE, hasCertificate: true };
    assert.deepEqual(afterLook(certified, KNOWN, true).effects, ['serve', 'lead']);
  });

  it('no longer leads from the look on that finds the Lease lost, and serves on', () => {
    assert.deepEqual(afterLook(LEADER, KNOWN, false), { life: STANDBY, effects: ['resign'] });
  });

  it('no longer leads while nothing is published', () => {
    const lost = { ...KNOWN, isListed: false };
    assert.deepEqual(afterLook(LEADER, lost, true), { life: STANDBY, effects: ['resign'] });
  });

  it('uses each further certificate, and each CA of the front proxy, at once', () => {
    assert.deepEqual(after(LEADER, 'certificate'), { life: LEADER, effects: ['useTls'] });
    assert.deepEqual(after(LEADER, 'frontProxy'), { life: LEADER, effects: ['useTls'] });
    assert.deepEqual(after(INITIAL_LIFECYCLE, 'frontProxy'), { life: INITIAL_LIFECYCLE, effects: [] });
  });

  it('looks at the APIService when the CA bundle or the replicas are other', () => {
    assert.deepEqual(after(LEADER, 'trusted'), { life: LEADER, effects: ['register'] });
    assert.deepEqual(after(STANDBY, 'replicas'), { life: STANDBY, effects: ['register', 'wake'] });
  });

  it('goes on as it was when it is told to stop, leading or standing by', () => {
    for (const life of [LEADER, STANDBY]) {
      const told = after(life, 'stopRequested');
      assert.deepEqual(told, { life: { ...life, isEnding: true }, effects: [] });
      assert.equal(missing(told.life, KNOWN), null);
      assert.deepEqual(afterLook(told.life, KNOWN, life.isLeading).effects, []);
    }
  });

  it('may still become leader, or lose the Lease, while it ends', () => {
    assert.deepEqual(afterLook({ ...STANDBY, isEnding: true }, KNOWN, true).effects, ['lead']);
    assert.deepEqual(afterLook({ ...LEADER, isEnding: true }, KNOWN, false).effects, ['resign']);
  });

  it('gives up when a part fails, unless it is over anyway', () => {
    const error = new Error('no address');
    for (const life of [INITIAL_LIFECYCLE, STANDBY, LEADER, { ...LEADER, isEnding: true }]) {
      assert.deepEqual(afterEvent(life, { type: 'failed', error }), { life, effects: [{ giveUp: error }] });
    }
    const over = { ...LEADER, isOver: true };
    assert.deepEqual(afterEvent(over, { type: 'failed', error }), { life: over, effects: [] });
  });

  it('ends at each point: it resigns where it leads, and begins nothing', () => {
    const certified = { ...INITIAL_LIFECYCLE, hasCertificate: true };
    for (const life of [INITIAL_LIFECYCLE, certified, STANDBY, LEADER, { ...LEADER, isEnding: true }]) {
      const { life: over, effects } = after(life, 'over');
      assert.deepEqual(effects, ['wake', 'look']);
      assert.equal(missing(over, KNOWN), 'stopping');
      const look = afterLook(over, KNOWN, true);
      assert.deepEqual(look.effects, life.isLeading ? ['resign'] : []);
      assert.equal(look.life.isLeading, false);
      assert.deepEqual(afterLook(look.life, KNOWN, true).effects, []);
    }
  });
});
