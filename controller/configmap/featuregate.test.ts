import assert from 'node:assert/strict';
import { gateAfter, gateSetting } from './featuregate.ts';

describe('gateSetting', () => {
  const CASES = [
    [null, null],
    [{}, null],
    [{ 'config.yaml': '' }, null],
    [{ 'config.yaml': 'featureGates: {}' }, null],
    [{ 'config.yaml': 'featureGates: {NodeNetworkPolicy: true}' }, true],
    [{ 'config.yaml': 'featureGates: {NodeNetworkPolicy: false}' }, false],
  ] as const;

  for (const [data, enabled] of CASES) {
    it(`${JSON.stringify(data)}: ${enabled}`, () => {
      assert.deepEqual(gateSetting(data), { enabled, problems: [] });
    });
  }

  it('says why it can’t be read', () => {
    const { enabled, problems } = gateSetting({
      'config.yaml': 'featureGates: {NodeNetworkPolicy: perhaps}',
    });
    assert.equal(enabled, null);
    assert.match(problems.join(), /^config\.yaml:1: featureGates\.NodeNetworkPolicy: /);
  });
});

describe('gateAfter', () => {
  const said = (enabled: boolean | null, ...problems: string[]) => ({ enabled, problems });

  it('is what the ConfigMap says', () => {
    for (const before of [null, true, false]) {
      for (const enabled of [true, false]) {
        assert.deepEqual(gateAfter(before, said(enabled), null), { enabled, problem: null });
        assert.deepEqual(gateAfter(before, said(enabled), !enabled), { enabled, problem: null });
      }
    }
  });

  it('stays as it was where the ConfigMap is gone, is empty or cannot be read', () => {
    for (const before of [true, false]) {
      for (const configured of [null, !before]) {
        const { enabled, problem } = gateAfter(before, said(null), configured);
        assert.equal(enabled, before);
        assert.match(String(problem), /says nothing of feature gate NodeNetworkPolicy/);
      }
      assert.deepEqual(gateAfter(before, said(null), before), { enabled: before, problem: null });
      const { enabled, problem } = gateAfter(before, said(null, 'line 1: no YAML'), !before);
      assert.equal(enabled, before);
      assert.match(String(problem), /can't be read: line 1: no YAML/);
    }
  });

  it('is first what the configuration says, else unknown, never off by itself', () => {
    for (const enabled of [true, false])
      assert.deepEqual(gateAfter(null, said(null), enabled), { enabled, problem: null });
    assert.equal(gateAfter(null, said(null), null).enabled, null);
    assert.equal(gateAfter(null, said(null, 'no YAML'), true).enabled, null);
  });
});
