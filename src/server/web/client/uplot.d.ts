// The service serves the chart library under this name, next to the client's own modules.
export { default } from 'uplot';
