import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listChange } from '../sharing/lists.ts';
import { MirroredProcess } from './mirrored-process.ts';

type Question = { readonly ask: 'names' | 'twice' | 'never' | 'exit' } | { readonly length: number };
type Answer = { readonly names?: readonly string[]; readonly text?: string; readonly isLast?: boolean };
type State = readonly { readonly name: string }[];

const CHILD = `
import { readSync } from 'node:fs';
import { serveMirrored } from '${join(import.meta.dirname, 'mirrored-process.ts')}';
serveMirrored({ named: [] }, ({ ask, length }, { named }, send) => {
  if (length !== undefined) {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) at += readSync(0, bytes, { offset: at }) || process.exit();
    send({ text: bytes.toString() });
  }
  if (ask === 'names') send({ names: named.map(({ name }) => name) });
  if (ask === 'twice') for (const isLast of [false, true]) send({ isLast });
  if (ask === 'exit') process.exit();
});
`;
const PATIENT = 60_000;
const STATE: State = [{ name: 'a' }, { name: 'b' }];

describe('MirroredProcess', function () {
  this.timeout(PATIENT);
  let folder: string;
  let mirrored: MirroredProcess<State, Question, Answer>;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mirrored-'));
    await writeFile(join(folder, 'child.mjs'), CHILD);
  });
  after(() => rm(folder, { recursive: true }));
  beforeEach(() => {
    mirrored = new MirroredProcess({
      file: join(folder, 'child.mjs'),
      heap: 64,
      costOf: () => 1,
      changes() {
        let sent: State = [];
        return (state) => {
          const change = { list: 'named', ...listChange<object>(sent, state), inOrder: state };
          sent = state;
          return [change];
        };
      },
      isLast: ({ isLast }) => isLast !== false,
    });
  });
  afterEach(() => mirrored.close());

  const ask = (question: Question, state = STATE, time = PATIENT) => mirrored.ask({ state, question, time });

  it('answers by the state at each question, in one process', async () => {
    assert.equal(mirrored.pid, undefined);
    mirrored.start();
    const { pid } = mirrored;
    assert.deepEqual(await ask({ ask: 'names' }), [{ names: ['a', 'b'] }]);
    assert.deepEqual(await ask({ ask: 'names' }, STATE.slice(1)), [{ names: ['b'] }]);
    assert.deepEqual(await ask({ ask: 'twice' }), [{ isLast: false }, { isLast: true }]);
    assert.equal(mirrored.pid, pid);
  });

  it('sends the bytes of a question beside it', async () => {
    const bytes = ['one', ' ', 'x'.repeat(200_000)].map((text) => Buffer.from(text));
    const question = { length: 200_004 };
    const [answer] = await mirrored.ask({ state: STATE, question, bytes, time: PATIENT });
    assert.equal(answer?.text, `one ${'x'.repeat(200_000)}`);
  });

  for (const [claim, question, time] of [
    ['has no time left', { ask: 'never' }, 1],
    ['has ended', { ask: 'exit' }, PATIENT],
  ] as const) {
    it(`has no answer of a process that ${claim}; another one has the whole state`, async () => {
      await ask({ ask: 'names' });
      const { pid } = mirrored;
      assert.deepEqual(await ask(question, STATE, time), []);
      assert.deepEqual(await ask({ ask: 'names' }), [{ names: ['a', 'b'] }]);
      assert.notEqual(mirrored.pid, pid);
    });
  }

  it('has another process after its end, and no answer after it was closed', async () => {
    await ask({ ask: 'names' });
    mirrored.end();
    assert.equal(mirrored.pid, undefined);
    assert.deepEqual(await ask({ ask: 'names' }), [{ names: ['a', 'b'] }]);
    mirrored.close();
    assert.deepEqual(await ask({ ask: 'names' }), []);
  });
});
