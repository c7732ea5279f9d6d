import assert from 'node:assert/strict';
import { fakeClock } from '../../test/fake/fake-clock.ts';
import { OwnToken } from './api-clients.ts';

describe('the own token', () => {
  function begin() {
    const clock = fakeClock();
    const said: string[] = [];
    const token = new OwnToken({
      clock,
      refused: (why) => void said.push(why),
      accepted: () => void said.push('accepted'),
    });
    const ask = (status: number, seconds: number): void => {
      for (let i = 0; i < seconds; i++) {
        token.answered(status);
        clock.pass(1_000);
      }
    };
    return { said, token, ask };
  }

  it('is refused after half a minute of 401, which is said once in five minutes, until it is accepted', () => {
    const { said, token, ask } = begin();
    ask(401, 30);
    assert.deepEqual(said, []);
    ask(401, 200);
    assert.equal(said.length, 1);
    assert.match(said[0] ?? '', /was the ServiceAccount made again\? Restart the pods/);
    assert.equal(token.refusal(), said[0]);
    ask(401, 150);
    assert.equal(said.length, 2);
    ask(403, 1);
    assert.deepEqual([said[2], token.refusal()], ['accepted', null]);
  });

  it('is not refused by one 401 among other answers, and not accepted by a server that fails', () => {
    const { said, token, ask } = begin();
    for (let i = 0; i < 100; i++) {
      ask(401, 1);
      ask(200, 1);
    }
    assert.equal(token.refusal(), null);
    ask(401, 31);
    ask(503, 10);
    assert.deepEqual(said, [token.refusal()]);
  });
});
