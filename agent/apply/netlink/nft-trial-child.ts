/** Run by nft-trial.ts in a network namespace of its own, which ends with this process. */
import { tryHere } from './nft-trial.ts';

void tryHere({ hooked: true }).then((trial) => process.stdout.write(JSON.stringify(trial)));
