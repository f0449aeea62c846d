//! Sockets that a service manager has opened before the server started.

use std::cell::RefCell;
use std::rc::Rc;

use esker_front_nbd::listen::{Access, ListenError, listen_as};
use esker_rt::Rt;
use esker_rt::net::{Address, Listener};

/// Listening sockets that are open already. Each stands for the address that it has.
#[derive(Clone, Default)]
pub struct Inherited(Rc<RefCell<Vec<Listener>>>);

impl Inherited {
    /// These.
    pub fn new(listeners: Vec<Listener>) -> Inherited {
        Inherited(Rc::new(RefCell::new(listeners)))
    }

    /// The socket of this address, else a new one with this access.
    ///
    /// # Errors
    /// As for [`listen_as`].
    pub(crate) fn or_listen(&self, rt: &Rt, address: &Address, access: Access) -> Result<Listener, ListenError> {
        let place = self.0.borrow().iter().position(|listener| listener.address() == address);
        match place {
            Some(place) => Ok(self.0.borrow_mut().swap_remove(place)),
            None => listen_as(rt, address, access),
        }
    }
}
