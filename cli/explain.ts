import { text } from 'node:stream/consumers';
import type { RulesInForce } from '../agent/inspect/explanation.ts';
import type { Translation } from '../agent/inspect/translation.ts';
import { type Explainer, explain } from '../agent/observe/explain.ts';
import { hostFlow } from '../agent/observe/known-flow.ts';
import type { NodeState } from '../apis/compiled.ts';
import type { Config } from '../apis/config.ts';
import { flowText, outcomeText, reasonText } from '../apis/explanation-text.ts';
import {
  type Explanation,
  type Flow,
  isEgressFlow,
  type NodeExplanation,
  parseEgressFlow,
} from '../apis/flow.ts';
import type { ClusterObjects } from '../apis/objects.ts';
import { fileText, STANDARD_INPUT } from '../apis/validate/problem.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { readInput } from '../lib/process/option-value.ts';
import { styled } from '../lib/process/terminal.ts';
import { printable } from '../lib/sharing/safe-text.ts';
import type { EgressAnswerer, ExplainedFlow } from './egress/declared-egress.ts';
import { type FlowWords, flowOfWords } from './flow-words.ts';
import {
  loadConfig,
  loadObjects,
  type NodeOptions,
  resolvedState,
  warnEgressIsOff,
  withDeclaredPods,
} from './load.ts';
import { json, print, printableTexts, table } from './output.ts';

type ExplainOptions = Omit<NodeOptions, 'manifests'> &
  FlowWords & {
    /** Absent: the rules in force, of this machine or of `node`. */
    readonly manifests?: readonly string[];
    readonly kubeconfig?: string;
    readonly stateDir: string;
    readonly flow?: string;
    readonly flows?: string;
    readonly output: 'text' | 'json';
  };

export async function explainCommand(options: ExplainOptions): Promise<ExitStatus> {
  const words = flowOfWords(options);
  const flow = words === null ? options.flow : JSON.stringify(words);
  if (flow === undefined && options.flows === undefined) {
    throw new CommandError(
      EXIT.usage,
      `give a connection, as in --from 198.51.100.7 --to-port 22; or --flow '{"direction":"ingress",…}', or --flows FILE`,
    );
  }
  const { manifests, names } = options;
  if (manifests === undefined && names !== undefined)
    throw new CommandError(EXIT.usage, '--names needs --manifests: a node knows the addresses of its names');
  if (manifests?.includes(STANDARD_INPUT) && options.flows === STANDARD_INPUT)
    throw new CommandError(EXIT.usage, 'only one of --manifests and --flows can be standard input');
  const loaded = manifests === undefined ? null : await loadObjects({ ...options, manifests });
  const answer = loaded === null ? await inForce(options) : answerer(loaded, options);
  const isWrong = flow === undefined ? await explainFile(options, answer) : false;
  if (flow !== undefined) {
    const { value, text } = await answer(flow, words === null ? '--flow' : 'the connection', true);
    await print(options.output === 'json' ? json(value) : text());
  }
  return isWrong || (loaded?.invalid === true && options.strict) ? EXIT.invalid : EXIT.done;
}

/** Returns whether a line was wrong. */
async function explainFile({ flows = '', output }: ExplainOptions, answer: Answerer): Promise<boolean> {
  let isWrong = false;
  const answers: string[] = [];
  for (const [i, line] of (await readFlows(flows)).split('\n').entries()) {
    if (line.trim() === '') continue;
    try {
      const { value, line: text } = await answer(line, `${fileText(flows)}:${i + 1}`, false);
      answers.push(output === 'json' ? JSON.stringify(value) : text());
    } catch (error) {
      if (error instanceof CommandError && error.status === EXIT.usage) throw error;
      isWrong = true;
      answers.push(JSON.stringify({ error: (error as Error).message }));
      process.stderr.write(`${(error as Error).message}\n`);
    }
  }
  if (answers.length > 0) await print(`${answers.join('\n')}\n`);
  return isWrong;
}

type Answerer = (text: string, where: string, considered: boolean) => Promise<ExplainedFlow>;

/** Evaluates the rules in force: here, or where the agent of the node is. */
async function inForce(options: ExplainOptions): Promise<Answerer> {
  const { fromNode } = await import('./node-data.ts');
  const config = await loadConfig(options.config);
  const answerHere = explainerHere({ stateDir: options.stateDir, config });
  return async (text, where) => {
    const flow = readFlow(text, where, config);
    if (flow.traffic === 'Egress')
      throw new CommandError(EXIT.usage, `${where}: flows of traffic Egress need --manifests`);
    const query = new URLSearchParams({ flow: JSON.stringify(flow) });
    const here = () => answerHere(flow).catch(withoutState);
    const { node, explanation } = await fromNode(options, 'explanation', query, here);
    const shown = printableTexts(explanation);
    return {
      value: explanation,
      line: () => verdictText(shown),
      text: () => explanationText(flow, shown, printable(node)),
    };
  };
}

function withoutState(error: unknown): never {
  if (!(error instanceof CommandError)) throw error;
  const message = `${error.message}; to explain by manifests give --manifests`;
  throw new CommandError(error.status, message, { cause: error });
}

/** Compiles what the first flow of a kind needs: nothing of a Node for flows of traffic Egress. */
function answerer(
  loaded: Awaited<ReturnType<typeof loadObjects>>,
  { node, names }: ExplainOptions,
): Answerer {
  const { config } = loaded;
  let host: Promise<NodeState> | null = null;
  let explainer: Explainer | null = null;
  let egress: Promise<EgressAnswerer> | null = null;
  return async (text, where, considered) => {
    const flow = readFlow(text, where, config);
    if (flow.traffic === 'Egress') {
      egress ??= egressOf(loaded);
      return (await egress)(flow, where, considered);
    }
    host ??= resolvedState(loaded, { node, names }).then((one) => withDeclaredPods(one, loaded.objects));
    const state = await host;
    explainer ??= explain(state, config);
    const healthCheckOf = healthCheckedAt(flow, loaded.objects.services);
    const answer = {
      ...explainer(flow, { considered }),
      ...(healthCheckOf === null ? {} : { healthCheckOf }),
    };
    return {
      value: answer,
      line: () => `${verdictText(answer)}${healthCheckText(flow, answer)}`,
      text: () => explanationText(flow, answer, state.node),
    };
  };
}

/** Says on standard error if agents steer nothing, because the feature gate is off. */
async function egressOf(loaded: Awaited<ReturnType<typeof loadObjects>>): Promise<EgressAnswerer> {
  const { egressAnswerer } = await import('./egress/declared-egress.ts');
  warnEgressIsOff(loaded.config);
  return await egressAnswerer(loaded);
}

/** The Service at whose healthCheckNodePort the flow arrives; null: at none. */
function healthCheckedAt(
  { direction, protocol, dstPort }: Flow,
  services: ClusterObjects['services'],
): string | null {
  if (direction !== 'ingress' || dstPort === undefined) return null;
  if (protocol !== undefined && protocol !== 'tcp' && protocol !== 6) return null;
  const service = services.find(({ healthCheckNodePort }) => healthCheckNodePort === dstPort);
  return service === undefined ? null : `${service.namespace}/${service.name}`;
}

function healthCheckText({ traffic, dstPort }: Flow, { healthCheckOf }: Explanation): string {
  if (healthCheckOf === undefined) return '';
  const is = `TCP ${dstPort} is the healthCheckNodePort of Service ${healthCheckOf}, where the Node itself answers`;
  const ask = traffic === 'NodePort' ? ', so this is no NodePort traffic: ask without "traffic"' : '';
  return `; ${printable(is)}${ask}`;
}

async function readFlows(path: string): Promise<string> {
  return path === STANDARD_INPUT ? await text(process.stdin) : await readInput('--flows', path);
}

function readFlow(text: string, where: string, config: Config): Flow | ReturnType<typeof parseEgressFlow> {
  try {
    const raw: unknown = JSON.parse(text);
    return isEgressFlow(raw) ? parseEgressFlow(raw) : hostFlow(raw, config);
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
    outcomeText({ mismatch, outcome }),
  ]);
  const rules =
    rows.length === 0 ? '' : `${table(['#', 'tier', 'policy/rule', 'index', 'action', 'outcome'], rows)}\n`;
  return `${flowText(flow, node)}\n\n${rules}${verdictText(answer)}${healthCheckText(flow, answer)}\n`;
}

const COLOURS = { Allow: 'green', Drop: 'red', Reject: 'red' } as const;

/** The verdict as one line. */
function verdictText(answer: ExplanationHere): string {
  const audited = (answer.audited ?? []).map(({ policy, rule, action }) => `${policy}/${rule} (${action})`);
  return `${styled(COLOURS[answer.verdict], answer.verdict)}: ${reasonText(answer)}${audited.length === 0 ? '' : `; audited: ${audited.join(', ')}`}${translationText(answer)}`;
}

/** The verdict on this machine. */
interface ExplanationHere extends Explanation {
  /** The acts of other tables on such packets before; absent: none, or they cannot be read. */
  readonly translation?: Translation;
}

type Translations = (flow: Flow) => Translation | null;

/** Evaluates the rules in force here; others' rules are read once, for the first flow. */
function explainerHere(
  rules: RulesInForce,
): (flow: Flow) => Promise<NodeExplanation & { readonly explanation: ExplanationHere }> {
  let translations: Promise<Translations> | null = null;
  return async (flow) => {
    const { explanationOf } = await import('../agent/inspect/explanation.ts');
    translations ??= import('../agent/inspect/translation.ts').then(({ readTranslations }) =>
      readTranslations(),
    );
    const translation = (await translations)(flow);
    if (translation === null) return await explanationOf(rules, flow);
    const { node, explanation } = await explanationOf(rules, { ...flow, ...translation.judgedAs });
    return { node, explanation: { ...explanation, translation } };
  };
}

/** The lines after the verdict; '' without a translation. */
function translationText({ translation }: ExplanationHere): string {
  if (translation === undefined) return '';
  const { tables, judgedAs } = translation;
  const by = `rules of other tables give these packets another destination: ${tables.join(', ')}`;
  if (judgedAs === undefined)
    return `; ${by}; where that is a container or pod, ask with "traffic": "NodePort", where it is another port of this machine, for that port`;
  const as = 'traffic' in judgedAs ? 'as NodePort traffic' : `at port ${judgedAs.dstPort}`;
  return `; judged ${as}: ${by}`;
}
