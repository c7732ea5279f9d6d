import { fieldText } from './record-text.ts';

/** The namespace of agents, and the label of their pods. */
export const AGENT_NAMESPACE = 'nodewall-system';
export const AGENT = 'app.kubernetes.io/name=nodewall-agent';

/**
 * The line for a shell that runs a command of nodewall on a node of the cluster.
 *
 * @param pod the agent's; absent: the line looks for it
 */
export function lineFor(node: string, command: string, pod?: string): string {
  const found = `"$(kubectl -n ${AGENT_NAMESPACE} get pod -l ${AGENT} --field-selector spec.nodeName=${fieldText(node)} -o name)"`;
  return `kubectl -n ${AGENT_NAMESPACE} exec ${pod === undefined ? found : fieldText(pod)} -- ${command}`;
}
