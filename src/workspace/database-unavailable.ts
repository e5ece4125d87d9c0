import { exitCodes, OddslakeError } from '../core/errors.ts';

/** The service's database cannot be asked now; it may be there again at the next request. */
export class WorkspaceUnavailableError extends OddslakeError {
  constructor(message: string, options?: ErrorOptions) {
    super(exitCodes.unexpected, message, options);
    this.name = 'WorkspaceUnavailable';
  }
}
