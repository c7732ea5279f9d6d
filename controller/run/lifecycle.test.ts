import assert from 'node:assert/strict';
import { afterEvent, afterLook, IDLE, type Lifecycle, type LifeEvent, missing } from './lifecycle.ts';

const KNOWN = { isListed: true, isGateKnown: true };
const LISTENING: Lifecycle = { ...IDLE, hasCertificate: true, isListening: true };
const STANDBY: Lifecycle = { ...LISTENING, isServing: true };
const LEADER: Lifecycle = { ...STANDBY, isLeading: true };

const after = (life: Lifecycle, type: Exclude<LifeEvent['kind'], 'failed'>) =>
  afterEvent(life, { kind: type });

describe('the life cycle of a controller', () => {
  it('serves nothing before objects, gate and certificate are known', () => {
    const cases = [
      [LISTENING, { isListed: false, isGateKnown: false }, /listed/],
      [LISTENING, { isListed: true, isGateKnown: false }, /gate/],
      [IDLE, KNOWN, /certificate/],
    ] as const;
    for (const [life, readiness, why] of cases) {
      assert.match(missing(life, readiness) ?? '', why);
      assert.deepEqual(afterLook(life, readiness, true), { life, effects: [] });
    }
    assert.equal(missing(LISTENING, KNOWN), null);
  });

  it('listens for scrapers as soon as it has a certificate, and not while it stops', () => {
    const certified = after(IDLE, 'certificate').life;
    const nothing = { isListed: false, isGateKnown: false };
    assert.deepEqual(afterLook(certified, nothing, false), { life: certified, effects: ['listen'] });
    assert.deepEqual(after(certified, 'listening'), { life: LISTENING, effects: ['useTls'] });
    assert.deepEqual(afterLook(LISTENING, nothing, false).effects, []);
    assert.deepEqual(afterLook({ ...certified, isOver: true }, nothing, false).effects, []);
  });

  it('checks again at the first certificate and at every change that serving depends on', () => {
    assert.deepEqual(after(IDLE, 'certificate'), {
      life: { ...IDLE, hasCertificate: true },
      effects: ['look'],
    });
    assert.deepEqual(after(STANDBY, 'changed'), { life: STANDBY, effects: ['look'] });
    assert.deepEqual(after(STANDBY, 'published'), { life: STANDBY, effects: ['wake', 'look'] });
  });

  it('serves as standby, then registers the APIService', () => {
    assert.deepEqual(afterLook(LISTENING, KNOWN, false), { life: LISTENING, effects: ['serve'] });
    assert.deepEqual(after(LISTENING, 'serving'), { life: STANDBY, effects: ['register'] });
    assert.deepEqual(afterLook(STANDBY, KNOWN, false), { life: STANDBY, effects: [] });
  });

  it('leads only when `lead` is done', () => {
    assert.deepEqual(afterLook(STANDBY, KNOWN, true), { life: STANDBY, effects: ['lead'] });
    assert.deepEqual(after(STANDBY, 'leading'), { life: LEADER, effects: [] });
    assert.deepEqual(afterLook(LEADER, KNOWN, true), { life: LEADER, effects: [] });
  });

  it('serves before it leads, if it is elected first', () => {
    const certified = { ...IDLE, hasCertificate: true };
    assert.deepEqual(afterLook(certified, KNOWN, true).effects, ['listen', 'serve', 'lead']);
  });

  it('stops leading at the check that finds the Lease lost, and keeps serving', () => {
    assert.deepEqual(afterLook(LEADER, KNOWN, false), { life: STANDBY, effects: ['resign'] });
  });

  it('does not lead while nothing is published', () => {
    const lost = { ...KNOWN, isListed: false };
    assert.deepEqual(afterLook(LEADER, lost, true), { life: STANDBY, effects: ['resign'] });
  });

  it('uses each further certificate, and each CA of the front proxy, at once', () => {
    assert.deepEqual(after(LEADER, 'certificate'), { life: LEADER, effects: ['useTls'] });
    assert.deepEqual(after(LEADER, 'frontProxy'), { life: LEADER, effects: ['useTls'] });
    assert.deepEqual(after(IDLE, 'frontProxy'), { life: IDLE, effects: [] });
  });

  it('checks the APIService when the CA bundle or the replicas change', () => {
    assert.deepEqual(after(LEADER, 'trusted'), { life: LEADER, effects: ['register'] });
    assert.deepEqual(after(STANDBY, 'replicas'), { life: STANDBY, effects: ['register', 'wake'] });
  });

  it('keeps leading or standing by when it is asked to stop', () => {
    for (const life of [LEADER, STANDBY]) {
      const told = after(life, 'stopRequested');
      assert.deepEqual(told, { life: { ...life, isEnding: true }, effects: [] });
      assert.equal(missing(told.life, KNOWN), null);
      assert.deepEqual(afterLook(told.life, KNOWN, life.isLeading).effects, []);
    }
  });

  it('can still become leader or lose the Lease while it stops', () => {
    assert.deepEqual(afterLook({ ...STANDBY, isEnding: true }, KNOWN, true).effects, ['lead']);
    assert.deepEqual(afterLook({ ...LEADER, isEnding: true }, KNOWN, false).effects, ['resign']);
  });

  it('begins again when it is asked to, unless it ends', () => {
    const again = { ...LEADER, isAgain: true };
    assert.deepEqual(after(LEADER, 'restartRequested'), { life: again, effects: ['restart'] });
    const ending = { ...LEADER, isEnding: true };
    assert.deepEqual(after(ending, 'restartRequested'), { life: ending, effects: [] });
  });

  it('gives up when a part fails, unless it is over', () => {
    const error = new Error('no address');
    for (const life of [IDLE, STANDBY, LEADER, { ...LEADER, isEnding: true }]) {
      assert.deepEqual(afterEvent(life, { kind: 'failed', error }), { life, effects: [{ giveUp: error }] });
    }
    const over = { ...LEADER, isOver: true };
    assert.deepEqual(afterEvent(over, { kind: 'failed', error }), { life: over, effects: [] });
  });

  it('when it is over, resigns if it leads, and starts nothing', () => {
    const certified = { ...IDLE, hasCertificate: true };
    for (const life of [IDLE, certified, STANDBY, LEADER, { ...LEADER, isEnding: true }]) {
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
