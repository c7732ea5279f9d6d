import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { explain } from '../../agent/observe/explain.ts';
import { render } from '../../agent/render/render.ts';
import { withDeclaredPods } from '../../cli/load.ts';
import { replaceFences } from '../docs/markdown.ts';
import { oracle, sameAnswer } from '../oracle/oracle.ts';
import { toPacket } from '../tracer/packet.ts';
import { tracer } from '../tracer/tracer.ts';
import { type Case, type Expectation, type Manifest, parseCases } from './case.ts';
import { checkEgressFlows } from './egress-flows.ts';
import { parseFlowLine } from './flow-line.ts';
import { type Inputs, readInputs } from './inputs.ts';
import { outcome, toState } from './outcome.ts';

const UPDATE = process.env.NODEWALL_UPDATE_GOLDENS === '1';
const FOLDER = import.meta.dirname;

for (const name of readdirSync(FOLDER).filter((entry) => entry.endsWith('.md') && entry !== 'README.md')) {
  const path = join(FOLDER, name);
  const file = `test/cases/${name}`;
  const text = readFileSync(path, 'utf8');
  const replacements = new Map<number, string>();
  describe(file, () => {
    after(() => {
      if (replacements.size > 0) writeFileSync(path, replaceFences(text, replacements));
    });
    for (const one of parseCases(file, text)) {
      it(one.headings.slice(1).join(': ') || one.headings.join(), async () => {
        for (const manifest of one.manifests) compareFile(one, manifest, replacements);
        for (const expectation of one.expectations) {
          const history = await historyOf(one, expectation);
          for (const inputs of history) assertNoSurprise(one, inputs);
          await checkFlows(one, expectation, history);
          await compare(one, expectation, history, replacements);
        }
      });
    }
  });
}

/** The inputs before each step of the section, and those that the expectation is of. */
async function historyOf(one: Case, { steps }: Expectation): Promise<readonly Inputs[]> {
  const history = [await readInputs(one)];
  for (const [i] of steps.entries()) history.push(await readInputs(one, steps.slice(0, i + 1).flat()));
  return history;
}

async function compare(
  { file }: Case,
  expectation: Expectation,
  history: readonly Inputs[],
  replacements: Map<number, string>,
): Promise<void> {
  const { fence } = expectation;
  const actual = await outcome(expectation, history);
  if (actual === fence.text) return;
  if (UPDATE) replacements.set(fence.line, actual);
  else assert.equal(actual, fence.text, difference(file, expectation, actual));
}

/** A fence that shows a file of the repository says what the file says. */
function compareFile({ file }: Case, { fence, shows }: Manifest, replacements: Map<number, string>): void {
  if (shows === null) return;
  const actual = readFileSync(join(FOLDER, '../..', shows), 'utf8');
  if (UPDATE && actual !== fence.text) replacements.set(fence.line, actual);
  else assert.equal(actual, fence.text, `${file}:${fence.line}: shows another ${shows}`);
}

/** The first line that differs; an editor opens file:line. */
function difference(file: string, { fence, output }: Expectation, actual: string): string {
  const [expected, found] = [fence.text.split('\n'), actual.split('\n')];
  const at = expected.findIndex((line, i) => line !== found[i]);
  const line = at < 0 ? expected.length - 1 : at;
  return [
    `${file}:${fence.line + 1 + line}: ${output}`,
    `expected: ${expected[line] ?? '(nothing more)'}`,
    `   found: ${found[line] ?? '(nothing more)'}`,
    `All of it:\n${actual}`,
    'NODEWALL_UPDATE_GOLDENS=1 writes what is found into the file.',
  ].join('\n');
}

/** An error that no fence speaks of is a mistake in the case. */
function assertNoSurprise({ file, expectations }: Case, { problems }: Inputs): void {
  if (expectations.some(({ output }) => output === 'problems')) return;
  const errors = problems.filter(({ severity }) => severity === 'error');
  const found = errors.map(({ line, path, message }) => `${file}:${line}: ${path}: ${message}`);
  assert.deepEqual(found, []);
}

/**
 * Flows of the cases are asked of everybody who can answer: the oracle, and the ruleset in both
 * forms.
 */
async function checkFlows(
  { file }: Case,
  expectation: Expectation,
  history: readonly Inputs[],
): Promise<void> {
  const { output, fence, node, parts } = expectation;
  const inputs = history.at(-1);
  if (output !== 'flows' || inputs === undefined) return;
  if (parts.includes('egress')) {
    checkEgressFlows(fence, inputs, file);
    return;
  }
  const { config, raw } = inputs;
  const state = await withDeclaredPods(toState(inputs, node), inputs.objects);
  const invalid = inputs.problems.some(({ severity }) => severity === 'error');
  const judge = oracle({ objects: raw.objects, node: state.node, config: raw.config, names: raw.names });
  const walks = (['indexed', 'linear'] as const).map((dispatch) =>
    tracer(render(state, { ...config, dispatch })),
  );
  for (const [i, line] of fence.text.split('\n').entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue;
    const where = `${file}:${fence.line + 1 + i}`;
    const { flow } = parseFlowLine(line);
    const answer = explain(state, config)(flow);
    // The oracle takes all objects to be valid.
    if (!invalid) {
      const wanted = judge(flow as Parameters<typeof judge>[0]);
      const asGiven = { ...answer, skipped: [...answer.skipped], audited: answer.audited ?? [] };
      assert.ok(sameAnswer(wanted, asGiven), `${where}: the oracle says ${JSON.stringify(wanted)}`);
    }
    const packet = toPacket(flow, state.nodeAddresses, config, state.localPods?.members);
    for (const walk of packet === null ? [] : walks) {
      const { verdict, source } = walk(packet as NonNullable<typeof packet>);
      assert.equal(verdict, answer.verdict, `${where}: the ruleset`);
      // One that passed is no decision.
      const passed = state.rules.some((rule) => rule.source === source && rule.action === 'Pass');
      assert.equal(passed ? null : (source?.rule ?? null), answer.rule, `${where}: the ruleset`);
    }
  }
}
