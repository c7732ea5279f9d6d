/** A thousand sessions in each case. */
import { openSessionsSuite } from './session-suite.ts';

openSessionsSuite(1_000);
