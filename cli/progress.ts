import type { Enforced } from '../agent/apply/enforcer.ts';
import { policyKey } from '../agent/apply/substitute.ts';
import { isEmpty, transactionText } from '../agent/apply/transaction.ts';
import type { Problem } from '../apis/objects.ts';
import { formatProblem } from '../apis/validate/problem.ts';
import type { Log } from './log.ts';

/** What the agent says: each policy it enforces or leaves out, once, when that changes. */
export function progress(node: string, log: Log) {
  let enforcedPolicies = new Set<string>();
  let knownProblems = new Set<string>();
  let revision = 0;
  return {
    problems(problems: readonly Problem[]): void {
      const lines = new Map(problems.map((problem) => [formatProblem(problem), problem]));
      for (const [line, { severity, kind, name, file }] of lines) {
        if (knownProblems.has(line)) continue;
        const level = severity === 'error' ? 'error' : severity === 'warning' ? 'warn' : 'info';
        const what =
          kind === 'ClusterNetworkPolicy' && severity === 'error' ? { policy: name, leftOut: true } : {};
        log.log(level, line, { node, stage: 'watch', file, ...what });
      }
      for (const line of knownProblems)
        if (!lines.has(line)) log.info(`solved: ${line}`, { node, stage: 'watch' });
      knownProblems = new Set(lines.keys());
    },
    waiting(manifests: readonly string[], haveLastGood: boolean): void {
      const meanwhile = haveLastGood ? 'the last good state is enforced' : 'nothing is changed';
      log.warn(`waiting for manifests that can be read; until then ${meanwhile}`, {
        node,
        stage: 'watch',
        manifests,
      });
    },
    undeclared(): void {
      log.error(`no manifest declares Node ${node}; what is enforced stays`, { node, stage: 'compile' });
    },
    enforced({ state, failed, transaction, milliseconds }: Enforced): void {
      revision++;
      const policies = new Map<string, number>();
      for (const rule of state.rules) policies.set(policyKey(rule), (policies.get(policyKey(rule)) ?? 0) + 1);
      for (const [policy, rules] of policies) {
        if (!enforcedPolicies.has(policy))
          log.info('policy enforced', { node, policy, rules, revision, stage: 'apply' });
      }
      for (const policy of enforcedPolicies) {
        if (!policies.has(policy))
          log.info('policy no longer enforced', { node, policy, revision, stage: 'apply' });
      }
      for (const [policy, error] of failed) {
        const kept = policies.has(policy) ? 'its last good version stays' : 'it is left out';
        log.error(`policy cannot be applied; ${kept}`, {
          node,
          policy,
          revision,
          stage: 'apply',
          error: error.message,
        });
      }
      enforcedPolicies = new Set(policies.keys());
      const changed = !isEmpty(transaction);
      log.log(changed ? 'info' : 'debug', changed ? 'enforced' : 'nothing to change', {
        node,
        revision,
        stage: 'apply',
        policies: policies.size,
        rules: state.rules.length,
        addressSets: state.addressSets.size,
        milliseconds: Math.round(milliseconds * 10) / 10,
      });
      if (log.isDebugEnabled())
        log.debug('transaction', { node, revision, text: transactionText(transaction) });
    },
    failed(error: Error, retryIn: number): void {
      log.error(`cannot apply; what was enforced stays enforced, next try in ${retryIn / 1000} s`, {
        node,
        stage: 'apply',
        error: error.message,
      });
    },
    drifted(differences: readonly string[]): void {
      log.warn('the table was changed by somebody else; repairing it', {
        node,
        stage: 'apply',
        differences: differences.slice(0, 20),
        count: differences.length,
      });
    },
  };
}
