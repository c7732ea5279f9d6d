import type { Config } from '../apis/config.ts';
import type { ClusterObjects, Problem } from '../apis/objects.ts';
import type { GuardrailViolation } from '../apis/validate/guardrail.ts';
import { validateOptions } from '../apis/validate/object.ts';
import { formatProblem, hasError } from '../apis/validate/problem.ts';
import { compile } from '../controller/compile/compile.ts';
import type { LeftOutEndpoints } from '../controller/compile/service-set.ts';
import { checkGuardrails, withGuardrails } from '../controller/difference/guardrails.ts';
import { loadManifests, type PolicyPlaces } from '../controller/watch/manifests.ts';
import { dualStackNodes, oneFamilyWarnings } from '../controller/webhook/family-risks.ts';
import { podAccessWarnings } from '../controller/webhook/pod-access.ts';
import {
  closedProbeWarnings,
  groupNodeWarnings,
  hiddenPodWarnings,
  masquerader,
  widePortWarnings,
} from '../controller/webhook/risks.ts';
import { leftOutEndpointWarnings, serviceWarnings } from '../controller/webhook/service-risks.ts';
import { EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { printable } from '../lib/sharing/safe-text.ts';
import type { Printed } from './command-options.ts';
import { type AgainstCluster, clusterOf, type InputOptions, loadConfig, warnEgressIsOff } from './load.ts';
import { MachineNode } from './machine-node.ts';
import { json, print } from './output.ts';

interface ValidateCommandOptions extends InputOptions, AgainstCluster, Printed<'text' | 'json'> {}

export async function validate(options: ValidateCommandOptions): Promise<ExitStatus> {
  const config = await loadConfig(options.config);
  const cluster = await clusterOf(options, config);
  const {
    objects,
    problems: found,
    files,
    places,
  } = await loadManifests(
    options.manifests,
    { ...validateOptions(config), egress: true },
    undefined,
    cluster,
  );
  const problems: Problem[] = [...found, ...closedProblems(objects, config, places)];
  const violations = violationsOf(judgedObjects(objects, config), config);
  const invalid = hasError(problems) || violations.length > 0;
  if (options.output === 'json') {
    const policies = objects.policies.length;
    const egress = egressCounts(objects);
    await print(
      json({ valid: !invalid, files, policies, ...egress, problems, ...violationsJson(objects, violations) }),
    );
  } else {
    await print(
      [...problems.map(formatProblem), ...violations.map(formatViolation).map(printable)]
        .map((line) => `${line}\n`)
        .join(''),
    );
    const of = (severity: Problem['severity']) =>
      problems.filter((problem) => problem.severity === severity).length;
    const counts = [
      count(files, 'file'),
      count(objects.policies.length, 'valid policy', 'valid policies'),
      ...egressTexts(objects),
      ...guardrailTexts(objects, violations),
      count(of('error'), 'error'),
      count(of('warning'), 'warning'),
      ...(of('notice') === 0 ? [] : [count(of('notice'), 'notice')]),
    ];
    process.stderr.write(`${counts.join(', ')}\n`);
  }
  if (egressTexts(objects).length > 0) warnEgressIsOff(config);
  return invalid ? EXIT.invalid : EXIT.done;
}

/**
 * Warnings about policies that close what a cluster needs. They depend on all manifests together;
 * each is reported at its policy.
 */
function closedProblems(
  objects: ClusterObjects,
  { failsafe, masquerade }: Config,
  places: PolicyPlaces,
): Problem[] {
  const by = masquerader(objects, masquerade);
  const leftOut = leftOutEndpoints(objects);
  const dual = dualStackNodes(objects);
  return objects.policies.flatMap((policy) =>
    [
      ...podAccessWarnings(policy, objects, failsafe.ingress),
      ...closedProbeWarnings(policy, objects),
      ...widePortWarnings(policy, failsafe),
      ...leftOutEndpointWarnings(policy, leftOut),
      ...serviceWarnings(policy, objects),
      ...hiddenPodWarnings(policy, objects, by),
      ...groupNodeWarnings(policy, objects),
      ...oneFamilyWarnings(policy, objects, dual),
    ].map((text): Problem => {
      const [path = '', ...words] = text.split(': ');
      const { kind, name } = policy;
      const { file, line } = places.get(policy) ?? { file: '', line: 0 };
      return { severity: 'warning', file, line, kind, name, path, message: words.join(': ') };
    }),
  );
}

/** Found by compiling, as far as any rule names a Service. */
function leftOutEndpoints(objects: ClusterObjects): LeftOutEndpoints {
  const names = objects.policies.some(({ spec }) =>
    spec.egress?.some(({ toServices }) => toServices?.length),
  );
  return names ? compile(objects).leftOutEndpoints : new Map();
}

/** A Guardrail speaks of Nodes: on a server without manifests of any, of this machine. */
function judgedObjects(objects: ClusterObjects, config: Config): ClusterObjects {
  if (objects.guardrails.length === 0 || objects.nodes.length > 0) return objects;
  const machine = new MachineNode({ ...validateOptions(config), egress: true });
  process.stderr.write(`${machine.text(objects)}\n`);
  return machine.with(objects);
}

function violationsOf(objects: ClusterObjects, config: Config): GuardrailViolation[] {
  if (objects.guardrails.length === 0) return [];
  const found = checkGuardrails(compile(withGuardrails()(objects)), { config });
  return [...found]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([guardrail, own]) => own.map((violation) => ({ guardrail, ...violation })));
}

/** As in docs/semantics.md section 6. */
function formatViolation({ guardrail, node, flow, rule }: GuardrailViolation): string {
  const decides = rule === null ? 'no rule' : `${rule.policy}/${rule.rule}`;
  return `Guardrail/${guardrail} ${node} ${JSON.stringify(flow)} ${decides}`;
}

/** Empty without Guardrails. */
function violationsJson({ guardrails }: ClusterObjects, violations: readonly GuardrailViolation[]): object {
  return guardrails.length === 0 ? {} : { guardrails: guardrails.length, violations };
}

function guardrailTexts({ guardrails }: ClusterObjects, violations: readonly GuardrailViolation[]): string[] {
  if (guardrails.length === 0) return [];
  const broken = new Set(violations.map(({ guardrail }) => guardrail)).size;
  return [count(guardrails.length, 'valid guardrail'), `${broken} of them broken`];
}

/** Empty without egress gateways and policies of them. */
function egressCounts({ egressGateways, egressPolicies }: ClusterObjects): object {
  if (egressGateways.length + egressPolicies.length === 0) return {};
  return { egressGateways: egressGateways.length, egressPolicies: egressPolicies.length };
}

function egressTexts({ egressGateways, egressPolicies }: ClusterObjects): string[] {
  if (egressGateways.length + egressPolicies.length === 0) return [];
  return [
    count(egressGateways.length, 'valid egress gateway'),
    count(egressPolicies.length, 'valid egress policy', 'valid egress policies'),
  ];
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number} ${number === 1 ? one : many}`;
}
