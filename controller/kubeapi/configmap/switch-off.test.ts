import assert from 'node:assert/strict';
import { switchOffSetting } from './switch-off.ts';

describe('switchOffSetting', () => {
  const CASES = [
    [undefined, null],
    ['usual', null],
    ['now', 0],
    [' now\n', 0],
    ['0', 0],
    ['600', 600],
    ['86400', 86_400],
  ] as const;

  for (const [text, over] of CASES) {
    it(`${text}: ${over}`, () => {
      const data = text === undefined ? {} : { 'switch-off': text };
      assert.deepEqual(switchOffSetting(data), { over, problem: null });
    });
  }

  it('is the usual time without a ConfigMap', () => {
    assert.deepEqual(switchOffSetting(null), { over: null, problem: null });
  });

  for (const text of ['', 'soon', '-1', '1.5', '86401', '1000000', 'NOW', 'true']) {
    it(`${JSON.stringify(text)}: the usual time, with a problem`, () => {
      const { over, problem } = switchOffSetting({ 'switch-off': text });
      assert.equal(over, null);
      assert.match(String(problem), /switch-off: must be now, usual, or a number of seconds up to 86400/);
    });
  }
});
