import { CommandError, EXIT } from '../lib/process/exit.ts';

/**
 * The value of NodeNetworkPolicy in `--feature-gates`; the last one counts. Throws a CommandError
 * for any other text.
 */
export function parseFeatureGates(gates: string): boolean {
  let enabled = true;
  for (const gate of gates.split(',')) {
    const match = /^NodeNetworkPolicy=(true|false)$/.exec(gate.trim());
    if (match === null) {
      throw new CommandError(
        EXIT.usage,
        `--feature-gates: ${JSON.stringify(gate)}: must be NodeNetworkPolicy=true or NodeNetworkPolicy=false`,
      );
    }
    enabled = match[1] === 'true';
  }
  return enabled;
}
