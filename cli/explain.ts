import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { explain } from '../agent/observe/explain.ts';
import type { Config } from '../apis/config.ts';
import type { Considered, Explanation, Flow } from '../apis/flow.ts';
import { parseFlow } from '../apis/parse-flow.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { styled } from '../lib/process/styled.ts';
import { loadResolvedNode, type NodeOptions } from './load.ts';
import { json, print, table } from './output.ts';

type ExplainOptions = NodeOptions & {
  readonly flow?: string;
  readonly flows?: string;
  readonly output: 'text' | 'json';
};

export async function explainCommand(options: ExplainOptions): Promise<ExitStatus> {
  if (options.flow === undefined && options.flows === undefined) {
    throw new CommandError(EXIT.usage, `give --flow '{"direction":"ingress",…}' or --flows FILE`);
  }
  const { state, config, invalid } = await loadResolvedNode(options);
  const flow = options.flow === undefined ? null : readFlow(options.flow, '--flow', config);
  const explainer = explain(state, config);
  let wrongLines = 0;
  if (flow !== null) {
    const answer = explainer(flow, { considered: true });
    await print(options.output === 'json' ? json(answer) : explanationText(flow, answer, options.node));
  } else {
    const path = options.flows ?? '';
    const lines = (await readFlows(path)).split('\n');
    const answers: string[] = [];
    for (const [i, line] of lines.entries()) {
      if (line.trim() === '') continue;
      try {
        const answer = explainer(readFlow(line, `${path}:${i + 1}`, config));
        answers.push(options.output === 'json' ? JSON.stringify(answer) : `${verdictText(answer)}`);
      } catch (error) {
        wrongLines++;
        answers.push(JSON.stringify({ error: (error as Error).message }));
        process.stderr.write(`${(error as Error).message}\n`);
      }
    }
    if (answers.length > 0) await print(`${answers.join('\n')}\n`);
  }
  return wrongLines > 0 || (invalid && options.strict) ? EXIT.invalid : EXIT.done;
}

async function readFlows(path: string): Promise<string> {
  try {
    return path === '-' ? await text(process.stdin) : await readFile(path, 'utf8');
  } catch (error) {
    throw new CommandError(EXIT.invalid, `--flows: ${(error as Error).message}`, { cause: error });
  }
}

function readFlow(text: string, where: string, { interfaceGroups }: Config): Flow {
  try {
    const flow = parseFlow(JSON.parse(text));
    const { interfaceGroup: group } = flow;
    if (typeof group === 'string' && !Object.hasOwn(interfaceGroups, group)) {
      const known = Object.keys(interfaceGroups).join(', ');
      throw new TypeError(`interfaceGroup: no group ${JSON.stringify(group)}; known: ${known}`);
    }
    return flow;
  } catch (error) {
    throw new CommandError(EXIT.invalid, `${where}: ${(error as Error).message}`, { cause: error });
  }
}

function explanationText(flow: Flow, answer: Explanation, node: string): string {
  const considered = answer.considered ?? [];
  const rows = considered.map(({ policy, rule, ruleIndex, tier, action, mismatch, outcome }, i) => [
    String(i + 1),
    tier,
    `${policy}/${rule}`,
    `${flow.direction}[${ruleIndex}]`,
    action,
    mismatch === null ? OUTCOMES[outcome] : `no match: ${mismatch}`,
  ]);
  const rules =
    rows.length === 0 ? '' : `${table(['#', 'tier', 'policy/rule', 'index', 'action', 'outcome'], rows)}\n`;
  return `${flowText(flow, node)}\n\n${rules}${verdictText(answer)}\n`;
}

const OUTCOMES: Readonly<Record<Considered['outcome'], string>> = {
  'no match': 'no match',
  skipped: 'skipped by the failsafe list',
  audited: 'audited: matched, decides nothing',
  passed: 'passed: on to the baseline tier',
  decided: 'decided',
};

function flowText(flow: Flow, node: string): string {
  const end = (address: string | undefined, port: number | undefined): string =>
    `${address ?? 'any address'}${port === undefined ? '' : ` port ${port}`}`;
  const { direction, protocol, traffic, interfaceGroup: group } = flow;
  const what = [direction, ...(traffic === 'NodePort' ? [traffic] : []), protocol ?? 'any protocol'].join(
    ' ',
  );
  const link = `${direction === 'ingress' ? 'in' : 'out'} by an interface of group ${group}`;
  const ends = `${end(flow.src, flow.srcPort)} to ${end(flow.dst, flow.dstPort)}`;
  const { originalDst, originalDstPort } = flow;
  const hasOriginal = originalDst !== undefined || originalDstPort !== undefined;
  const before = end(originalDst ?? flow.dst, originalDstPort ?? flow.dstPort);
  const nat = hasOriginal ? `, before NAT ${before}` : '';
  return `${what} on ${node}: ${ends}${nat}${group === undefined ? '' : `, ${link}`}`;
}

const COLOURS = { Allow: 'green', Drop: 'red', Reject: 'red' } as const;

/** The verdict as one line. */
function verdictText(answer: Explanation): string {
  const audited = (answer.audited ?? []).map(({ policy, rule, action }) => `${policy}/${rule} (${action})`);
  return `${reasonText(answer)}${audited.length === 0 ? '' : `; audited: ${audited.join(', ')}`}`;
}

/** A Pass does not decide; it restricts the rest of the evaluation to the baseline tier. */
function passedText({ considered = [] }: Explanation): string {
  const passed = considered.find(({ outcome }) => outcome === 'passed');
  return passed === undefined ? '' : `passed by ${passed.policy}/${passed.rule}; of the baseline tier `;
}

function reasonText(answer: Explanation): string {
  const verdict = styled(COLOURS[answer.verdict], answer.verdict);
  const by =
    answer.policy === null ? 'no rule matched' : `rule ${answer.policy}/${answer.rule} (tier ${answer.tier})`;
  switch (answer.reason) {
    case 'exempt':
      return `${verdict}: exempt (${answer.exemption})`;
    case 'spoofed':
      return `${verdict}: spoofed (antiSpoofing): a pod cannot send with a Node's address`;
    case 'default':
      return `${verdict}: ${passedText(answer)}no rule matched`;
    case 'rule':
      return `${verdict}: ${by}`;
    case 'failsafe': {
      const skipped = answer.skipped.map(({ policy, rule }) => `${policy}/${rule}`).join(', ');
      return `${verdict}: the failsafe list skipped ${skipped}; ${answer.policy === null ? 'no other rule matched' : by}`;
    }
  }
}
